"""Measured memory: learned figures, other programs on the device, and yielding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import GIB, gpu, model, with_budget, with_model, without
from tests.support.invariants import BrokenPromise, check
from tests.support.scheduler_driver import (
    SchedulerDriver,
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
from hotseat.errors import LoadFailed, NeverFits, NoMemory, Yielding
from hotseat.identifiers import ClientId, LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Cause, Refuse, StartUpstream, StopUpstream
from hotseat.scheduling.events import (
    CatalogChanged,
    DevicesChanged,
    FleetModelsChanged,
    MemoryMeasured,
    OverridesChanged,
    ProfileChanged,
    RequestArrived,
    RequestLeft,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    YieldEnded,
    YieldRequested,
)
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.view import DeviceView

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.events import Event

GAME = YieldRequested("game.exe is running (pid 4242)")
WAYS: list[Event] = [GAME, YieldRequested("an operator needs gpu0", frozenset({gpu(0)})), YieldEnded()]


def guessed(name: str, gib: int, **known: Any) -> ModelSpec:
    return model(name, estimated={gpu(0): gib * GIB}, **known)


def with_persistent(catalog: Catalog, name: str) -> Catalog:
    group = Group("for good", swap=False, exclusive=False, persistent=True, members=(ModelName(name),))
    return replace(catalog, groups=Groups((group,), TOGETHER))


# Figures


def test_an_estimate_counts_where_nothing_is_declared(new_driver: NewDriver) -> None:
    """Two models that are estimated to fit run together."""
    driver = new_driver(with_budget(guessed("qwen", 10), guessed("llama", 14)))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "llama") << starts("llama")


def test_a_declared_figure_stands_against_an_estimate(new_driver: NewDriver) -> None:
    """The configuration wins."""
    driver = new_driver(with_budget(replace(guessed("qwen", 23), memory={gpu(0): GIB}), model("llama", gib=20)))

    assert driver.view("qwen").footprint == Footprint({gpu(0): GIB}, Source.DECLARED)


def test_what_was_measured_replaces_the_estimate(new_driver: NewDriver) -> None:
    """Once the server was used its estimate is forgotten, and what it does not take is there for others."""
    driver = new_driver(with_budget(guessed("qwen", 20), guessed("llama", 10)))
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing

    driver >> arrives(2, "llama") << starts("llama")
    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)


def test_a_server_that_was_not_used_yet_keeps_its_estimate(new_driver: NewDriver) -> None:
    """Untouched pages do not exist yet, but they will."""
    driver = new_driver(with_budget(guessed("qwen", 20)))
    driver.with_ready("qwen")
    driver >> measured("qwen", 3) << nothing

    assert driver.view("qwen").footprint == Footprint({gpu(0): 20 * GIB}, Source.ESTIMATED)
    assert driver.view("qwen").measured == {gpu(0): 3 * GIB}


def test_a_model_without_any_figure_is_measured(new_driver: NewDriver) -> None:
    """It has a whole device to itself only until it was measured."""
    driver = new_driver(with_budget(model("qwen"), model("llama", gib=10)))
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing

    driver >> arrives(2, "llama") << starts("llama")


def test_the_next_load_counts_what_was_measured(new_driver: NewDriver) -> None:
    """A figure outlives the process that it was learned from."""
    driver = new_driver(with_budget(guessed("qwen", 4), model("llama", gib=12)))
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 14) << nothing
    driver >> leaves(1) << nothing
    driver >> exited("qwen") << nothing
    driver.with_ready("llama")

    driver >> arrives(2, "qwen") << stops("llama")


def test_a_declared_figure_stands_against_what_was_measured(new_driver: NewDriver) -> None:
    """What was seen is shown, and does not count."""
    driver = new_driver(with_budget(model("qwen", gib=8), model("llama", gib=16)))
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing

    driver >> arrives(2, "llama") << starts("llama")
    assert driver.view("qwen").measured == {gpu(0): 12 * GIB}


def test_a_measurement_of_a_process_that_is_gone(new_driver: NewDriver) -> None:
    """It says nothing about a current process."""
    driver = new_driver(with_budget(guessed("qwen", 4)))
    driver.with_ready("qwen", 1)
    driver >> MemoryMeasured(ModelName("qwen"), LaunchId(99), {gpu(0): GIB}) << nothing

    assert driver.view("qwen").measured is None


def test_a_measurement_of_a_process_whose_configuration_has_changed(new_driver: NewDriver) -> None:
    """The new command's figure is not touched by what the old command took, which counts until it is gone."""
    catalog = with_budget(guessed("qwen", 20))
    driver = new_driver(catalog)
    driver.with_ready("qwen", 1)
    driver >> changed(with_model(catalog, guessed("qwen", 6, version=2))) << nothing
    driver >> measured("qwen", 12) << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)

    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 6 * GIB}, Source.ESTIMATED)


def test_what_an_earlier_run_measured_counts_from_the_start() -> None:
    """It wins over the estimate on the places where it was measured."""
    both = model("qwen", estimated={gpu(0): 20 * GIB, gpu(1): GIB})
    driver = SchedulerDriver(with_budget(both, gib={0: 24, 1: 24}), {ModelName("qwen"): {gpu(0): 12 * GIB}})

    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB, gpu(1): GIB}, Source.MEASURED)


def test_a_reload_keeps_what_was_measured(new_driver: NewDriver) -> None:
    """Of a recipe that did not change, on places that still have a budget."""
    catalog = with_budget(guessed("qwen", 20), gib={0: 24, 1: 24})
    driver = new_driver(catalog)
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing
    driver >> measured("qwen", 2, on=1) << nothing
    driver >> changed(with_budget(guessed("qwen", 20, title="Qwen"))) << nothing

    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)


def test_a_changed_recipe_has_the_figure_of_its_own_earlier_runs(new_driver: NewDriver) -> None:
    """It counts once the old process is gone; a model that changes back has its first figure again."""
    catalog = with_budget(guessed("qwen", 20))
    driver = new_driver(catalog)
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing
    other = with_model(catalog, guessed("qwen", 6, version=2))
    driver >> CatalogChanged(other, {ModelName("qwen"): {gpu(0): 5 * GIB}}) << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)

    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 5 * GIB}, Source.MEASURED)

    driver >> CatalogChanged(catalog, {ModelName("qwen"): {gpu(0): 12 * GIB}}) << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)


@pytest.mark.parametrize(
    "event",
    [
        OverridesChanged(ModelName("qwen"), ttl_s=5),
        ProfileChanged(None),
        FleetModelsChanged({}),
        CatalogChanged(with_budget(guessed("qwen", 20, version=2))),
        CatalogChanged(with_budget(guessed("qwen", 20, version=2), model("llama", gib=1))),
    ],
    ids=["overrides", "profile", "fleet", "the same configuration", "another model"],
)
@pytest.mark.parametrize("recipe", [1, 2])
def test_an_event_without_a_figure_leaves_figures_as_they_are(new_driver: NewDriver, event: Event, recipe: int) -> None:
    """That of a running process, and that of the changed recipe which waits for its end."""
    driver = new_driver(with_budget(guessed("qwen", 20, version=recipe)))
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing
    figure = {ModelName("qwen"): {gpu(0): (12 if recipe == 2 else 5) * GIB}}
    driver >> CatalogChanged(with_budget(guessed("qwen", 20, version=2)), figure) << nothing
    driver >> event << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 12 * GIB}, Source.MEASURED)

    driver >> leaves(1)
    driver._unasserted.clear()
    driver >> exited("qwen") << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): figure[ModelName("qwen")][gpu(0)]}, Source.MEASURED)


def test_the_figure_of_a_recipe_that_never_ran_is_not_that_of_the_next(new_driver: NewDriver) -> None:
    """A third recipe without a figure is unknown, but for its estimate."""
    driver = new_driver(with_budget(guessed("qwen", 20)))
    driver.with_ready("qwen", 1)
    driver >> CatalogChanged(with_budget(guessed("qwen", 6, version=2)), {ModelName("qwen"): {gpu(0): GIB}}) << nothing
    driver >> CatalogChanged(with_budget(guessed("qwen", 7, version=3))) << nothing
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing

    assert driver.view("qwen").footprint == Footprint({gpu(0): 7 * GIB}, Source.ESTIMATED)


def test_a_cold_model_forgets_the_figure_of_its_old_recipe(new_driver: NewDriver) -> None:
    """And so does a model that left the configuration and came back."""
    catalog = with_budget(guessed("qwen", 20), model("llama", gib=1))
    driver = new_driver(catalog)
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing
    driver >> leaves(1) << nothing
    driver >> exited("qwen") << nothing
    driver >> changed(with_model(catalog, guessed("qwen", 6, version=2))) << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 6 * GIB}, Source.ESTIMATED)

    driver >> CatalogChanged(catalog, {ModelName("qwen"): {gpu(0): 12 * GIB}}) << nothing
    driver >> changed(without(catalog, "qwen")) << nothing
    driver >> changed(catalog) << nothing
    assert driver.view("qwen").footprint == Footprint({gpu(0): 20 * GIB}, Source.ESTIMATED)


def test_a_measurement_leaves_the_catalog_alone(new_driver: NewDriver) -> None:
    """It is the configuration: what is derived from it need not be computed again."""
    driver = new_driver(with_budget(guessed("qwen", 20)))
    before = driver.scheduler.catalog
    driver.with_ready("qwen", 1)
    driver >> measured("qwen", 12) << nothing
    driver >> left_by_others(20) << nothing

    assert driver.scheduler.catalog is before


# Others on the device


def test_an_idle_model_leaves_when_others_come(new_driver: NewDriver) -> None:
    """The cheapest of them; models in use stay."""
    driver = new_driver(with_budget(*(model(name, gib=8) for name in ("a", "b", "c"))))
    driver.with_ready("a", 1).with_ready("b", 2).with_ready("c", 3)
    driver.at(40) >> leaves(2) << nothing
    driver.at(41) >> leaves(3) << nothing

    driver >> left_by_others(20) << stops("b", cause=Cause.EXCEEDS_MEMORY)
    assert driver.reason == "models use 4 GiB more of gpu0 than the 20 GiB available"
    assert driver.phase("a") is Phase.READY


def test_models_in_use_are_not_cut_for_others(new_driver: NewDriver) -> None:
    """They leave as soon as their requests have ended, and not before."""
    driver = new_driver(with_budget(model("qwen", gib=8)))
    driver.with_ready("qwen", 1)
    driver >> left_by_others(4) << wakes_at(11)
    driver.at(11) >> clock << wakes_at(12)
    driver.at(11.5) >> leaves(1) << nothing

    driver.at(12) >> clock << stops("qwen")


def test_whoever_cannot_help_stays(new_driver: NewDriver) -> None:
    """A model on another device is none of the crowd's business; neither are those that are there for good."""
    pinned, persistent = model("pinned", gib=8, pinned=True), model("kept", gib=8)
    catalog = with_budget(pinned, persistent, model("far", gib=8, on=1), gib={0: 24, 1: 24})
    driver = new_driver(with_persistent(catalog, "kept"))
    driver.with_ready("pinned").with_ready("kept").with_ready("far")

    driver >> left_by_others(4) << wakes_at(31)


def test_a_model_without_memory_because_of_others_is_refused_with_the_figures(new_driver: NewDriver) -> None:
    """It is not said to never fit, and nothing is evicted for it."""
    driver = new_driver(with_budget(model("big", gib=20), model("small", gib=2)))
    driver.with_ready("small")
    driver >> left_by_others(10) << nothing

    driver >> arrives(1, "big") << refuses(1, NoMemory)
    assert driver.error.message == (
        "big does not fit right now: it needs 20 GiB, but the budget of gpu0 is 24 GiB,"
        " and other programs leave only 10 GiB of it. Try again when they have finished."
    )
    assert driver.error.retry_after == 30
    assert driver.phase("small") is Phase.READY


def test_others_who_have_gone_give_the_budget_back(new_driver: NewDriver) -> None:
    """The budget is what the configuration says, however much more is free."""
    driver = new_driver(with_budget(model("big", gib=20)))
    driver >> left_by_others(10) << nothing
    driver >> left_by_others(80) << nothing

    driver >> arrives(1, "big") << starts("big")
    assert driver.scheduler.view(0).devices == (DeviceView(gpu(0), 24 * GIB, 24 * GIB, 20 * GIB),)


def test_models_of_unknown_size_where_other_programs_leave_nothing(new_driver: NewDriver) -> None:
    """All of nothing is too little for one, and so for two; one that runs already stays."""
    driver = new_driver(with_budget(model("old"), model("a"), model("b")))
    driver.with_ready("old")
    driver >> left_by_others(0) << nothing

    driver >> arrives(1, "a") << refuses(1, NoMemory)
    assert driver.error.message == (
        "a does not fit right now: its memory is unknown, so it takes all of gpu0, of which other programs leave"
        " nothing. Try again when they have finished, or declare `memory` for a."
    )
    driver >> arrives(2, "b") << refuses(2, NoMemory)


def test_a_budget_is_raised_before_other_programs_are_measured_again(new_driver: NewDriver) -> None:
    """Where they left all of the old budget, the new one counts at once; where they left less, that counts."""
    rig = with_budget(model("a", gib=8), model("b", gib=16), model("c", gib=16, on=1), gib={0: 12, 1: 12})
    driver = new_driver(rig)
    driver >> DevicesChanged({gpu(0): 12 * GIB, gpu(1): 10 * GIB}) << nothing
    driver >> changed(replace(rig, budgets={gpu(0): 24 * GIB, gpu(1): 24 * GIB})) << nothing

    driver >> arrives(1, "b") << starts("b")
    driver >> arrives(2, "c") << refuses(2, NoMemory)
    driver >> left_by_others(14) << wakes_at(1)


def test_what_others_take_is_remembered_over_a_reload(new_driver: NewDriver) -> None:
    """A new configuration does not make them go."""
    catalog = with_budget(model("big", gib=20))
    driver = new_driver(catalog)
    driver >> left_by_others(10) << nothing
    driver >> changed(catalog) << nothing

    driver >> arrives(1, "big") << refuses(1, NoMemory)


# Precedence


def test_a_yield_unloads_every_model(driver: SchedulerDriver) -> None:
    """A model in use finishes its requests first; new requests are refused with the reason."""
    driver.with_ready("qwen", 1)
    driver >> GAME << nothing
    driver >> arrives(2, "qwen") << refuses(2, Yielding)
    assert driver.error.message == "no model can be loaded right now: game.exe is running (pid 4242). Try again later."

    driver >> leaves(1) << stops("qwen", cause=Cause.YIELD)
    assert driver.scheduler.view(driver.now).yielding == "game.exe is running (pid 4242)"


def test_a_yield_stops_a_load(driver: SchedulerDriver) -> None:
    """Also one that requests wait for: they are refused at once."""
    driver >> arrives(1, "qwen") << starts("qwen")

    driver >> GAME << refuses(1, Yielding) << stops("qwen", cause=Cause.YIELD)


def test_models_load_again_after_the_yield(driver: SchedulerDriver) -> None:
    """The next request loads its model as if nothing had been."""
    driver >> GAME << nothing
    driver >> YieldEnded() << nothing

    driver >> arrives(1, "qwen") << starts("qwen")


def test_a_yield_of_one_device_unloads_only_its_models(new_driver: NewDriver) -> None:
    """Models elsewhere neither leave nor are they refused."""
    driver = new_driver(with_budget(model("near", gib=8), model("far", gib=8, on=1), gib={0: 24, 1: 24}))
    driver.with_ready("near").with_ready("far")

    driver >> YieldRequested("training", frozenset({gpu(0)})) << stops("near")
    driver >> arrives(1, "far") << grants(1)


def test_who_waits_for_another_device_waits_on(new_driver: NewDriver) -> None:
    """Only requests that need the yielded device are refused."""
    driver = new_driver(with_budget(model("near", gib=8), model("far", gib=8, on=1), gib={0: 24, 1: 24}))
    driver >> arrives(1, "far") << starts("far")

    driver >> YieldRequested("training", frozenset({gpu(0)})) << nothing
    driver >> arrives(2, "near") << refuses(2, Yielding)


def test_one_device_without_budgets_is_every_device(driver: SchedulerDriver) -> None:
    """It is unknown which model is where."""
    driver.with_ready("qwen")

    driver >> YieldRequested("training", frozenset({gpu(0)})) << stops("qwen")


# The promises


def test_a_model_that_stays_during_a_yield_breaks_an_invariant(driver: SchedulerDriver) -> None:
    """Precedence is a promise too."""
    driver.with_ready("qwen")
    driver.scheduler._state.yields[False] = GAME

    with pytest.raises(BrokenPromise, match=r"\['qwen'\] are still running although a yield is active"):
        check(driver.scheduler._state)


def test_excess_memory_without_a_pending_check_breaks_an_invariant(new_driver: NewDriver) -> None:
    """A changed figure must set `may_exceed_memory`."""
    driver = new_driver(with_budget(guessed("qwen", 6)))
    driver.with_ready("qwen")
    state = driver.scheduler._state
    state.limits = {gpu(0): GIB}

    with pytest.raises(BrokenPromise, match=r"models exceed the limits by .*, and no check is pending"):
        check(state)


# Whatever is measured


class Weighed:
    """Servers use random amounts of memory beside other programs; every start is checked against what is known.

    A model whose figure exceeds the budget is started alone: it is never said to never fit.
    """

    def __init__(self) -> None:
        names = ("a", "b", "c", "d")
        self.scheduler = Scheduler(with_budget(*(guessed(name, 6) for name in names), max_queue=50))
        self.names = [ModelName(name) for name in names]
        self.now, self.tickets = 0.0, 0
        self.counted = dict.fromkeys(names, 6 * GIB)
        self.left = 24 * GIB
        self.launches: dict[str, LaunchId] = {}
        """Whose processes are there."""
        self.alone: dict[str, int] = {}
        """What those got that were started alone."""

    def tell(self, event: Event) -> None:
        self.now += 1
        for command in self.scheduler.handle(event, self.now):
            if isinstance(command, StartUpstream):
                self.launches[command.model] = command.launch
                assert command.alone == (self.counted[command.model] > 24 * GIB)
                if command.alone:
                    self.alone[command.model] = min(24 * GIB, self.left)
                taken = sum(min(self.counted[name], self.alone.get(name, 99 * GIB)) for name in self.launches)
                assert taken <= min(24 * GIB, self.left), f"{command.model} is started without free memory"
            if isinstance(command, Refuse):
                assert not isinstance(command.error, NeverFits), command.error.message
            if isinstance(command, StopUpstream):
                assert command.cause in (Cause.EVICTION, Cause.EXCEEDS_MEMORY, Cause.YIELD)
        check(self.scheduler._state)

    def ask(self, name: ModelName) -> None:
        self.tickets += 1
        self.tell(RequestArrived(TicketId(self.tickets), name, ClientId("someone")))

    def measure(self, name: ModelName, gib: int) -> None:
        if name not in self.launches:
            return
        view = self.scheduler.view_of(name, self.now)
        self.counted[name] = gib * GIB if view.served else max(self.counted[name], gib * GIB)
        self.tell(MemoryMeasured(name, self.launches[name], {gpu(0): gib * GIB}))

    def come_and_go(self, gib: int) -> None:
        self.left = gib * GIB
        self.tell(DevicesChanged({gpu(0): self.left}))

    def go_on(self, name: ModelName) -> None:
        """Its process takes the next step that it can."""
        phase = self.scheduler.view_of(name, self.now).phase
        if phase is Phase.LOADING:
            self.tell(UpstreamReady(name, self.launches[name], upstream_of(name)))
        elif phase is Phase.UNLOADING:
            launch = self.launches.pop(name)
            self.alone.pop(name, None)
            self.tell(UpstreamExited(name, launch, "exited with code 0"))

    def fail(self, name: ModelName) -> None:
        """Its start does, if it is loading."""
        if self.scheduler.view_of(name, self.now).phase is not Phase.LOADING:
            return
        self.alone.pop(name, None)
        launch = self.launches.pop(name)
        self.tell(UpstreamFailed(name, launch, LoadFailed(f"{name} exited with code 1")))


@given(st.data())
def test_nothing_is_started_beyond_what_is_known(data: st.DataObject) -> None:
    """Whatever is measured: a start always fits into what the device has left for models."""
    rig = Weighed()
    for _ in range(data.draw(st.integers(1, 40))):
        name = data.draw(st.sampled_from(rig.names))
        steps = ["ask", "go on", "go on", "leave", "measure", "others", "way", "clock", "fail", "wait"]
        match data.draw(st.sampled_from(steps)):
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
            case "fail":
                rig.fail(name)
            case "wait":
                rig.now += data.draw(st.sampled_from([60, 600]))
            case "way":
                rig.tell(data.draw(st.sampled_from(WAYS)))
            case _:
                rig.tell(clock)
