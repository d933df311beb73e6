"""From measurements to events: a real scheduler with a scripted meter."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from tests.support.catalogs import GIB, gpu, model, sleeps, with_budget
from tests.support.fake_launcher import FIRST_PID, FakeLauncher

from hotseat.catalog.spec import NOTHING, Footprint, GpuChoice, Source
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import ANY_GPU, RAM, Address, ClientId, DeviceName, LaunchId, ModelName, TicketId, Upstream
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import DeviceReading, Reading, Use
from hotseat.memory.meter import Measured
from hotseat.memory.model_figures import Figures, Footprints, key_of
from hotseat.memory.monitor import MemoryMonitor, budget_of, left_by_others
from hotseat.scheduling.events import DevicesChanged, MemoryMeasured, RequestArrived, RequestLeft, ServerAdopted
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    import pytest

    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import MeasuredMemory

GPU = DeviceName("gpu0")
QWEN = ModelName("qwen")
PID = FIRST_PID + 1
CARD = {GPU: DeviceReading(24 * GIB, 20 * GIB)}


class Nowhere:
    """A store without content."""

    def recall(self) -> Mapping[str, Any]:
        return {}

    def keep(self, key: str, fact: Any) -> None:
        pass


class MonitorRig:
    """A dispatcher with qwen ready, and a watch that receives measurements."""

    def __init__(self, dispatcher: Dispatcher, journal: Journal, borrowers: Collection[DeviceName]) -> None:
        footprints = Footprints(Nowhere())
        figures = Figures(footprints, {}, lambda: Machine({}))
        self.dispatcher, self.journal = dispatcher, journal
        self._watch = MemoryMonitor(dispatcher, footprints, figures, lambda: borrowers)

    def see(self, taken_gib: float = 0, used_gib: float = 0, **more: Any) -> None:
        """qwen takes so much of the card, and all programs together so much."""
        devices = {GPU: DeviceReading(24 * GIB, int((24 - used_gib) * GIB))}
        uses = {PID: {GPU: Use(int(taken_gib * GIB))}} if taken_gib else {}
        self._watch.report_measurement(Measured(Reading(devices, uses, **more), {}))

    def use(self) -> None:
        """One request, from its arrival to its last byte."""
        self.dispatcher.tell(RequestArrived(TicketId(99), QWEN, ClientId("someone")))
        self.dispatcher.tell(RequestLeft(TicketId(99)))

    def look_away(self) -> None:
        """Measuring stops."""
        self._watch.report_measurement(None)

    def see_nothing(self) -> None:
        self._watch.report_measurement(Measured(Reading(), {}))

    def report_measurement(self, reading: Reading) -> None:
        self._watch.report_measurement(Measured(reading, {}))

    @property
    def footprint(self) -> Footprint | None:
        return self.dispatcher.views.of(QWEN).footprint

    @property
    def available(self) -> float:
        return self.dispatcher.views.current().devices[0].available / GIB


@asynccontextmanager
async def opened(
    catalog: Catalog, borrowers: Collection[DeviceName] = (), measured: MeasuredMemory = NOTHING
) -> AsyncIterator[MonitorRig]:
    journal = Journal()
    dispatcher = Dispatcher(Scheduler(catalog, measured), FakeLauncher(), journal)
    await dispatcher.operator.load(QWEN)
    yield MonitorRig(dispatcher, journal, borrowers)
    await dispatcher.shut_down(within=0)


async def test_a_model_is_measured() -> None:
    """A server that is larger than its estimate counts as measured."""
    async with opened(with_budget(model("qwen", estimated={gpu(0): 4 * GIB}))) as rig:
        rig.see(taken_gib=6, used_gib=6)

        assert rig.footprint == Footprint({gpu(0): 6 * GIB}, Source.MEASURED)


async def test_what_was_measured_is_reported_beside_what_was_expected() -> None:
    """The event contains the estimate and the budget."""
    async with opened(with_budget(model("qwen", estimated={gpu(0): 4 * GIB}))) as rig:
        rig.see(taken_gib=6, used_gib=6)

        measured = rig.journal.entries()[-1].event
        assert measured == MemoryMeasured(
            QWEN, LaunchId(1), {gpu(0): 6 * GIB}, estimated={gpu(0): 4 * GIB}, budgets={gpu(0): 24 * GIB}
        )


async def test_an_estimate_that_was_right_is_called_measured_once_the_model_was_used() -> None:
    """The figure is the same, but its source is the measurement."""
    async with opened(with_budget(model("qwen", estimated={gpu(0): 6 * GIB}))) as rig:
        rig.see(taken_gib=6, used_gib=6)
        rig.use()
        rig.see(taken_gib=6, used_gib=6)

        assert rig.footprint == Footprint({gpu(0): 6 * GIB}, Source.MEASURED)


async def test_an_estimate_that_was_too_high_is_forgotten_once_the_model_was_used() -> None:
    """Until then the estimate counts: untouched pages are not resident yet."""
    async with opened(with_budget(model("qwen", estimated={gpu(0): 9 * GIB}))) as rig:
        rig.see(taken_gib=6, used_gib=6)
        unused = rig.footprint
        rig.use()
        rig.see(taken_gib=6, used_gib=6)

        assert unused == Footprint({gpu(0): 9 * GIB}, Source.ESTIMATED)
        assert rig.footprint == Footprint({gpu(0): 6 * GIB}, Source.MEASURED)


async def test_a_server_that_sleeps_is_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it keeps counts while it sleeps, and its figure awake does not change."""
    awake = Footprint({gpu(0): 20 * GIB}, Source.MEASURED)
    catalog = with_budget(model("qwen", sleep=sleeps()), model("llama", gib=20))
    async with opened(catalog, measured={QWEN: awake.memory}) as rig:
        await rig.dispatcher.operator.load(ModelName("llama"))
        rig.see(taken_gib=20, used_gib=20)
        just_asleep = rig.footprint
        monkeypatch.setattr("hotseat.memory.monitor.SETTLED_S", 0.0)
        rig.see(taken_gib=1, used_gib=21)
        rig.see(taken_gib=1, used_gib=21)

        assert just_asleep == Footprint({}, Source.ESTIMATED)
        assert rig.footprint == Footprint({gpu(0): GIB}, Source.MEASURED)
        assert rig.dispatcher.questions.footprint(QWEN) == awake
        measured = [entry for entry in rig.journal.entries() if isinstance(entry.event, MemoryMeasured)]
        assert len(measured) == 1


async def test_a_server_that_cannot_be_seen_is_not_measured() -> None:
    """Its estimate stays, for example in a container."""
    async with opened(with_budget(model("qwen", estimated={gpu(0): 9 * GIB}))) as rig:
        rig.see(used_gib=6, elsewhere=(PID,))

        assert rig.footprint == Footprint({gpu(0): 9 * GIB}, Source.ESTIMATED)
        assert rig.available == 24


async def test_growth_of_a_page_is_no_news() -> None:
    """The scheduler gets an event when a figure changes by more than a hundredth."""
    async with opened(with_budget(model("qwen"))) as rig:
        rig.see(taken_gib=6, used_gib=6)
        rig.see(taken_gib=6.01, used_gib=6.01)
        small = rig.footprint
        rig.see(taken_gib=7, used_gib=7)

        assert small == Footprint({gpu(0): 6 * GIB}, Source.MEASURED)
        assert rig.footprint == Footprint({gpu(0): 7 * GIB}, Source.MEASURED)


async def test_more_than_declared_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The declared figure stays in force, and a warning tells its author."""
    async with opened(with_budget(model("qwen", gib=4))) as rig:
        rig.see(taken_gib=6, used_gib=6)
        rig.see(taken_gib=9, used_gib=9)

        assert rig.footprint == Footprint({gpu(0): 4 * GIB}, Source.DECLARED)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["model uses more memory than declared model=qwen device=gpu0 used='6 GiB' declared='4 GiB'"]


async def test_others_count_when_they_stay() -> None:
    """One measurement may see memory that is being released; three in a row see another program."""
    async with opened(with_budget(model("qwen", gib=4))) as rig:
        rig.see(taken_gib=4, used_gib=4)
        seen = []
        for _ in range(3):
            rig.see(taken_gib=4, used_gib=16)
            seen.append(rig.available)

        assert seen == [24, 24, 12]


async def test_others_who_leave_are_noticed_at_once() -> None:
    """Free memory is used at once."""
    async with opened(with_budget(model("qwen", gib=4))) as rig:
        for _ in range(3):
            rig.see(taken_gib=4, used_gib=16)
        rig.see(taken_gib=4, used_gib=4)

        assert rig.available == 24


async def test_others_are_forgotten_when_nobody_looks_any_more() -> None:
    """A reload has switched measuring off: the whole budget counts again."""
    async with opened(with_budget(model("qwen", gib=4))) as rig:
        for _ in range(3):
            rig.see(taken_gib=4, used_gib=16)
        rig.look_away()
        rig.look_away()

        assert rig.available == 24
        assert rig.journal.entries()[-1].event == DevicesChanged({})
        assert sum(isinstance(entry.event, DevicesChanged) for entry in rig.journal.entries()) == 2


async def test_a_driver_that_does_not_answer_changes_nothing() -> None:
    """An empty reading gives no event."""
    async with opened(with_budget(model("qwen", gib=4))) as rig:
        for _ in range(3):
            rig.see_nothing()

        assert rig.available == 24


async def test_on_unified_memory_both_kinds_are_one_models() -> None:
    """Its server's RAM does not count as foreign on the GPU that uses the RAM."""
    async with opened(with_budget(model("qwen")), borrowers=(GPU,)) as rig:
        for _ in range(3):
            uses = {PID: {GPU: Use(10 * GIB), RAM: Use(2 * GIB)}}
            rig.report_measurement(Reading({GPU: DeviceReading(24 * GIB, 12 * GIB)}, uses))

        assert rig.footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)
        assert rig.available == 24


def test_a_desktop_is_always_there() -> None:
    """Programs that take next to nothing leave the budget as configured."""
    budgets = {gpu(0): 24 * GIB}

    assert left_by_others(Reading({GPU: DeviceReading(24 * GIB, 23 * GIB)}), budgets) == {gpu(0): 24 * GIB}
    assert left_by_others(Reading({GPU: DeviceReading(24 * GIB, 20 * GIB)}), budgets) == {gpu(0): 20 * GIB}
    assert left_by_others(Reading({}), budgets) == {}


async def test_an_adopted_server_keeps_the_peak_that_the_previous_process_has_stored() -> None:
    """Its launch is not counted again, so nothing older is forgotten for it."""
    spec = model("qwen", estimated={gpu(0): GIB})
    lives = [{GPU: {"anonymous": gib * GIB}} for gib in (9, 2, 2, 2, 6)]
    store = Mock(recall=lambda: {key_of(spec.recipe): {"launch": 1, "lives": lives}})
    footprints, journal = Footprints(store), Journal()
    dispatcher = Dispatcher(Scheduler(with_budget(spec)), FakeLauncher(), journal)
    dispatcher.tell(ServerAdopted(QWEN, LaunchId(1), spec, Upstream(Address("127.0.0.1", 5000), PID)))
    monitor = MemoryMonitor(dispatcher, footprints, Figures(footprints, {}, lambda: Machine({})), tuple)
    monitor.report_measurement(Measured(Reading(CARD, {PID: {GPU: Use(3 * GIB)}}), {}))

    assert footprints.peak(key_of(spec.recipe)) == {GPU: Use(9 * GIB)}
    store.keep.assert_not_called()


# Models whose cards are chosen when they start

CHOSEN = model("qwen", gpus=GpuChoice(1, (gpu(0), gpu(1))), estimated={ANY_GPU: 4 * GIB})


async def test_a_measurement_counts_on_all_cards_of_the_process() -> None:
    """The next process may get others; the journal compares it with what the model may get."""
    devices = {gpu(number).device: DeviceReading(24 * GIB, 24 * GIB) for number in (0, 1)}
    uses = {gpu(0).device: Use(2 * GIB), gpu(1).device: Use(3 * GIB), RAM: Use(GIB)}
    async with opened(with_budget(CHOSEN, gib={0: 24, 1: 12})) as rig:
        rig.report_measurement(Reading(devices, {PID: uses}))
        [measured] = [event for entry in rig.journal.entries() if isinstance(event := entry.event, MemoryMeasured)]

        assert (measured.memory, measured.budgets) == ({ANY_GPU: 5 * GIB}, {ANY_GPU: 36 * GIB})


def test_the_budget_of_cards_that_are_chosen_is_that_of_all() -> None:
    """The journal compares a measurement with what the model may get."""
    chosen = model("qwen", gpus=GpuChoice(1, (gpu(0), gpu(2))))
    budgets = {gpu(0): 24, gpu(1): 12, gpu(2): 8}

    assert budget_of(ANY_GPU, chosen, budgets) == 32
    assert budget_of(gpu(1), chosen, budgets) == 12
