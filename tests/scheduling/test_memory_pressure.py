"""Measured memory: learned figures, other programs on the device, and yielding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import GIB, gpu, model, with_budget, with_model
from tests.support.playbook import (
    arrives,
    changed,
    clock,
    exited,
    grants,
    leaves,
    left_by_others,
    measured,
    nothing,
    refuses,
    starts,
    stops,
    upstream_of,
    wakes_at,
)

from hotseat.catalog.groups import TOGETHER, Group, Groups
from hotseat.catalog.spec import Footprint, Source
from hotseat.errors import NeverFits, NoMemory, Yielding
from hotseat.identifiers import ClientId, LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Cause, StartUpstream, StopUpstream
from hotseat.scheduling.events import (
    DevicesChanged,
    MemoryMeasured,
    RequestArrived,
    RequestLeft,
    UpstreamExited,
    UpstreamReady,
    YieldEnded,
    YieldRequested,
)
from hotseat.scheduling.invariants import BrokenPromise, check
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import needs
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.view import DeviceView

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.events import Event

GAME = YieldRequested("game.exe is running (pid 4242)")
WAYS: list[Event] = [GAME, YieldRequested("an operator needs gpu0", frozenset({gpu(0)})), YieldEnded()]


def guessed(name: str, gib: int, **known: Any) -> ModelSpec:
    return model(name, learned=Footprint({gpu(0): gib * GIB}, Source.ESTIMATED), **known)


def with_persistent(catalog: Catalog, name: str) -> Catalog:
    group = Group("for good", swap=False, exclusive=False, persistent=True, members=(ModelName(name),))
    return replace(catalog, groups=Groups((group,), TOGETHER))


# Figures


def test_an_estimate_counts_where_nothing_is_declared(stage: Stage) -> None:
    """Two models that are estimated to fit run together."""
    yard = stage(with_budget(guessed("qwen", 10), guessed("llama", 14)))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "llama") << starts("llama")


def test_a_declared_figure_stands_against_an_estimate(stage: Stage) -> None:
    """The configuration wins."""
    yard = stage(with_budget(replace(guessed("qwen", 23), memory={gpu(0): GIB}), model("llama", gib=20)))

    assert yard.view("qwen").footprint == Footprint({gpu(0): GIB}, Source.DECLARED)


def test_what_was_measured_replaces_the_estimate(stage: Stage) -> None:
    """Once the server was used its estimate is forgotten, and what it does not take is there for others."""
    yard = stage(with_budget(guessed("qwen", 20), guessed("llama", 10)))
    yard.with_ready("qwen", 1)
    yard >> measured("qwen", 12) << nothing

    yard >> arrives(2, "llama") << starts("llama")
    assert yard.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)


def test_a_server_that_was_not_used_yet_keeps_its_estimate(stage: Stage) -> None:
    """Untouched pages do not exist yet, but they will."""
    yard = stage(with_budget(guessed("qwen", 20)))
    yard.with_ready("qwen")
    yard >> measured("qwen", 3) << nothing

    assert yard.view("qwen").footprint == Footprint({gpu(0): 20 * GIB}, Source.ESTIMATED)
    assert yard.view("qwen").measured == {gpu(0): 3 * GIB}


def test_a_model_without_any_figure_is_measured(stage: Stage) -> None:
    """It has a whole device to itself only until it was measured."""
    yard = stage(with_budget(model("qwen"), model("llama", gib=10)))
    yard.with_ready("qwen", 1)
    yard >> measured("qwen", 12) << nothing

    yard >> arrives(2, "llama") << starts("llama")


def test_the_next_load_counts_what_was_measured(stage: Stage) -> None:
    """A figure outlives the process that it was learned from."""
    yard = stage(with_budget(guessed("qwen", 4)))
    yard.with_ready("qwen", 1)
    yard >> measured("qwen", 30) << wakes_at(11)
    yard >> leaves(1) << nothing
    yard.at(11) >> clock << stops("qwen", cause=Cause.EXCEEDS_MEMORY)
    yard >> exited("qwen") << nothing

    yard >> arrives(2, "qwen") << refuses(2, NeverFits)
    assert "needs 30 GiB (measured), but the budget of gpu0 is 24 GiB" in yard.error.message


def test_a_declared_figure_stands_against_what_was_measured(stage: Stage) -> None:
    """What was seen is shown, and does not count."""
    yard = stage(with_budget(model("qwen", gib=8), model("llama", gib=16)))
    yard.with_ready("qwen", 1)
    yard >> measured("qwen", 12) << nothing

    yard >> arrives(2, "llama") << starts("llama")
    assert yard.view("qwen").measured == {gpu(0): 12 * GIB}


def test_a_measurement_of_a_process_that_is_gone(stage: Stage) -> None:
    """It says nothing about a current process."""
    yard = stage(with_budget(guessed("qwen", 4)))
    yard.with_ready("qwen", 1)
    yard >> MemoryMeasured(ModelName("qwen"), LaunchId(99), {gpu(0): GIB}) << nothing

    assert yard.view("qwen").measured is None


def test_a_measurement_of_a_process_whose_configuration_has_changed(stage: Stage) -> None:
    """The new command's figure is not touched by what the old command took."""
    catalog = with_budget(guessed("qwen", 20))
    yard = stage(catalog)
    yard.with_ready("qwen", 1)
    yard >> changed(with_model(catalog, guessed("qwen", 6, version=2))) << nothing
    yard >> measured("qwen", 12) << nothing

    assert needs(yard.scheduler.catalog.resolve("qwen"), yard.scheduler.catalog) == {gpu(0): 6 * GIB}


# Others on the device


def test_an_idle_model_leaves_when_others_come(stage: Stage) -> None:
    """The cheapest of them; models in use stay."""
    yard = stage(with_budget(*(model(name, gib=8) for name in ("a", "b", "c"))))
    yard.with_ready("a", 1).with_ready("b", 2).with_ready("c", 3)
    yard.at(40) >> leaves(2) << nothing
    yard.at(41) >> leaves(3) << nothing

    yard >> left_by_others(20) << stops("b", cause=Cause.EXCEEDS_MEMORY)
    assert yard.reason == "models use 4 GiB more of gpu0 than the 20 GiB available"
    assert yard.phase("a") is Phase.READY


def test_models_in_use_are_not_cut_for_others(stage: Stage) -> None:
    """They leave as soon as their requests have ended, and not before."""
    yard = stage(with_budget(model("qwen", gib=8)))
    yard.with_ready("qwen", 1)
    yard >> left_by_others(4) << wakes_at(11)
    yard.at(11) >> clock << wakes_at(12)
    yard.at(11.5) >> leaves(1) << nothing

    yard.at(12) >> clock << stops("qwen")


def test_whoever_cannot_help_stays(stage: Stage) -> None:
    """A model on another device is none of the crowd's business; neither are those that are there for good."""
    pinned, persistent = model("pinned", gib=8, pinned=True), model("kept", gib=8)
    catalog = with_budget(pinned, persistent, model("far", gib=8, on=1), gib={0: 24, 1: 24})
    yard = stage(with_persistent(catalog, "kept"))
    yard.with_ready("pinned").with_ready("kept").with_ready("far")

    yard >> left_by_others(4) << wakes_at(31)


def test_room_that_others_use_is_refused_with_the_figures(stage: Stage) -> None:
    """It is not said to never fit, and nothing is evicted for it."""
    yard = stage(with_budget(model("big", gib=20), model("small", gib=2)))
    yard.with_ready("small")
    yard >> left_by_others(10) << nothing

    yard >> arrives(1, "big") << refuses(1, NoMemory)
    assert yard.error.message == (
        "big does not fit right now: it needs 20 GiB, but the budget of gpu0 is 24 GiB,"
        " and other programs leave only 10 GiB of it. Try again when they have finished."
    )
    assert yard.error.retry_after == 30
    assert yard.phase("small") is Phase.READY


def test_others_who_have_gone_give_the_budget_back(stage: Stage) -> None:
    """The budget is what the configuration says, however much more is free."""
    yard = stage(with_budget(model("big", gib=20)))
    yard >> left_by_others(10) << nothing
    yard >> left_by_others(80) << nothing

    yard >> arrives(1, "big") << starts("big")
    assert yard.scheduler.view(0).devices == (DeviceView(gpu(0), 24 * GIB, 24 * GIB, 20 * GIB),)


def test_what_others_take_is_remembered_over_a_reload(stage: Stage) -> None:
    """A new configuration does not make them go."""
    catalog = with_budget(model("big", gib=20))
    yard = stage(catalog)
    yard >> left_by_others(10) << nothing
    yard >> changed(catalog) << nothing

    yard >> arrives(1, "big") << refuses(1, NoMemory)


# Precedence


def test_a_yield_unloads_every_model(yard: Playbook) -> None:
    """A model in use finishes its requests first; new requests are refused with the reason."""
    yard.with_ready("qwen", 1)
    yard >> GAME << nothing
    yard >> arrives(2, "qwen") << refuses(2, Yielding)
    assert yard.error.message == "no model can be loaded right now: game.exe is running (pid 4242). Try again later."

    yard >> leaves(1) << stops("qwen", cause=Cause.YIELD)
    assert yard.scheduler.view(yard.now).yielding == "game.exe is running (pid 4242)"


def test_a_yield_stops_a_load(yard: Playbook) -> None:
    """Also one that requests wait for: they are refused at once."""
    yard >> arrives(1, "qwen") << starts("qwen")

    yard >> GAME << refuses(1, Yielding) << stops("qwen", cause=Cause.YIELD)


def test_models_load_again_after_the_yield(yard: Playbook) -> None:
    """The next request loads its model as if nothing had been."""
    yard >> GAME << nothing
    yard >> YieldEnded() << nothing

    yard >> arrives(1, "qwen") << starts("qwen")


def test_a_yield_of_one_device_unloads_only_its_models(stage: Stage) -> None:
    """Models elsewhere neither leave nor are they refused."""
    yard = stage(with_budget(model("near", gib=8), model("far", gib=8, on=1), gib={0: 24, 1: 24}))
    yard.with_ready("near").with_ready("far")

    yard >> YieldRequested("training", frozenset({gpu(0)})) << stops("near")
    yard >> arrives(1, "far") << grants(1)


def test_who_waits_for_another_device_waits_on(stage: Stage) -> None:
    """Only requests that need the yielded device are refused."""
    yard = stage(with_budget(model("near", gib=8), model("far", gib=8, on=1), gib={0: 24, 1: 24}))
    yard >> arrives(1, "far") << starts("far")

    yard >> YieldRequested("training", frozenset({gpu(0)})) << nothing
    yard >> arrives(2, "near") << refuses(2, Yielding)


def test_one_device_without_budgets_is_every_device(yard: Playbook) -> None:
    """It is unknown which model is where."""
    yard.with_ready("qwen")

    yard >> YieldRequested("training", frozenset({gpu(0)})) << stops("qwen")


# The promises


def test_a_model_that_stays_during_a_yield_breaks_an_invariant(yard: Playbook) -> None:
    """Precedence is a promise too."""
    yard.with_ready("qwen")
    yard.scheduler._state.yielding = GAME

    with pytest.raises(BrokenPromise, match=r"\['qwen'\] are still running although a yield is active"):
        check(yard.scheduler._state)


def test_excess_memory_without_a_pending_check_breaks_an_invariant(stage: Stage) -> None:
    """A changed figure must set `may_exceed_memory`."""
    yard = stage(with_budget(guessed("qwen", 6)))
    yard.with_ready("qwen")
    state = yard.scheduler._state
    state.catalog = replace(state.catalog, available={gpu(0): GIB})

    with pytest.raises(BrokenPromise, match=r"models exceed the limits by .*, and no check is pending"):
        check(state)


# Whatever is measured


class Weighed:
    """Servers use random amounts of memory beside other programs; every start is checked against what is known."""

    def __init__(self) -> None:
        names = ("a", "b", "c", "d")
        self.scheduler = Scheduler(with_budget(*(guessed(name, 6) for name in names), max_queue=50))
        self.names = [ModelName(name) for name in names]
        self.now, self.tickets = 0.0, 0
        self.counted = dict.fromkeys(names, 6 * GIB)
        self.left = 24 * GIB
        self.launches: dict[str, LaunchId] = {}
        """Whose processes are there."""

    def tell(self, event: Event) -> None:
        self.now += 1
        for command in self.scheduler.handle(event, self.now):
            if isinstance(command, StartUpstream):
                self.launches[command.model] = command.launch
                taken = sum(self.counted[name] for name in self.launches)
                assert taken <= min(24 * GIB, self.left), f"{command.model} is started without room"
            if isinstance(command, StopUpstream):
                assert command.cause in (Cause.EVICTION, Cause.EXCEEDS_MEMORY, Cause.YIELD)
        check(self.scheduler._state)

    def ask(self, name: ModelName) -> None:
        self.tickets += 1
        self.tell(RequestArrived(TicketId(self.tickets), name, ClientId("someone")))

    def measure(self, name: ModelName, gib: int) -> None:
        if name not in self.launches:
            return
        view = self.scheduler.view(self.now).model(name)
        self.counted[name] = gib * GIB if view.served else max(self.counted[name], gib * GIB)
        self.tell(MemoryMeasured(name, self.launches[name], {gpu(0): gib * GIB}))

    def come_and_go(self, gib: int) -> None:
        self.left = gib * GIB
        self.tell(DevicesChanged({gpu(0): self.left}))

    def go_on(self, name: ModelName) -> None:
        """Its process takes the next step that it can."""
        phase = self.scheduler.view(self.now).model(name).phase
        if phase is Phase.LOADING:
            self.tell(UpstreamReady(name, self.launches[name], upstream_of(name)))
        elif phase is Phase.UNLOADING:
            launch = self.launches.pop(name)
            self.tell(UpstreamExited(name, launch, "exited with code 0"))


@given(st.data())
def test_nothing_is_started_beyond_what_is_known(data: st.DataObject) -> None:
    """Whatever is measured: a start always fits into what the device has left for models."""
    rig = Weighed()
    for _ in range(data.draw(st.integers(1, 40))):
        name = data.draw(st.sampled_from(rig.names))
        match data.draw(st.sampled_from(["ask", "go on", "go on", "leave", "measure", "others", "way", "clock"])):
            case "ask":
                rig.ask(name)
            case "go on":
                rig.go_on(name)
            case "leave":
                rig.tell(RequestLeft(TicketId(data.draw(st.integers(1, rig.tickets + 1)))))
            case "measure":
                rig.measure(name, data.draw(st.integers(1, 30)))
            case "others":
                rig.come_and_go(data.draw(st.integers(0, 30)))
            case "way":
                rig.tell(data.draw(st.sampled_from(WAYS)))
            case _:
                rig.tell(clock)
