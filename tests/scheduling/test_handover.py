"""The servers of a process of hotseat are handed over to the next one: no step begins, and nothing is unloaded."""

from __future__ import annotations

import json
from dataclasses import is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.support.catalogs import GIB, gpu, level, model, on_any, one_at_a_time, sleeps, with_budget, without
from tests.support.scheduler_driver import (
    arrives,
    asleep,
    cannot_sleep,
    changed,
    clock,
    confirms,
    cuts,
    exited,
    failed,
    grants,
    handover_cancelled,
    handover_requested,
    keep_alive,
    leaves,
    left_by_others,
    load,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    restores,
    saved,
    saves,
    shutdown,
    starts,
    stops,
    unload,
    unresponsive,
    wakes_at,
)

from hotseat.catalog.catalog import must_restart
from hotseat.catalog.named_models import FleetModel, Profile
from hotseat.catalog.spec import Overrides
from hotseat.errors import Busy, NeverFits, NotRunning, UnknownModel, Yielding
from hotseat.identifiers import ModelName, Place
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import FleetModelsChanged, OverridesChanged, ProfileChanged, YieldEnded, YieldRequested
from hotseat.scheduling.handover import VERSION, Handover, ProcessSpec, UnreadableHandover, from_json, to_json
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

    from hotseat.catalog.catalog import Catalog
    from hotseat.scheduling.events import Event

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
PROFILES = {"night": Profile("night", "", {"gpt": "qwen"})}
FAR = FleetModel(ModelName("far"))


def test_an_eviction_waits_for_the_end_of_the_handover(driver: SchedulerDriver) -> None:
    """The request waits, and is told why."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> arrives(1, "llama") << nothing

    assert driver.why("llama").startswith("hotseat is restarting, then: stopping qwen")
    assert driver.scheduler.view(driver.now).queue[0].not_later_than is None
    assert driver.scheduler.may_hand_over()
    driver >> handover_cancelled << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    assert not driver.scheduler.may_hand_over()


def test_a_ready_model_serves_as_usual(driver: SchedulerDriver) -> None:
    """Leases are granted and given back, and a full model is waited for as always."""
    driver.with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> arrives(2, "llama") << nothing
    driver >> arrives(3, "qwen") << grants(3)
    driver >> leaves(1) << nothing
    driver >> leaves(3) << nothing
    driver >> handover_cancelled << stops("qwen")


def test_a_load_in_progress_ends(driver: SchedulerDriver) -> None:
    """Only then may the servers be handed over."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> handover_requested << nothing

    assert not driver.scheduler.may_hand_over()
    assert driver.why("qwen").startswith("loading qwen")
    driver.after(10) >> ready("qwen") << grants(1)
    assert driver.scheduler.may_hand_over()


def test_a_stop_in_progress_ends(driver: SchedulerDriver) -> None:
    """The model that memory was freed for is started after the handover."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> handover_requested << nothing
    driver >> arrives(2, "qwen") << nothing

    assert not driver.scheduler.may_hand_over()
    assert driver.why("qwen").startswith("hotseat is restarting, then: stopping qwen")
    driver >> exited("qwen") << nothing
    assert driver.scheduler.may_hand_over()
    driver >> handover_cancelled << starts("llama")


def test_a_save_in_progress_goes_on_to_its_stop(new_driver: NewDriver) -> None:
    """It is the rest of a step."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << saves("qwen")
    driver >> handover_requested << nothing
    driver >> saved("qwen", 1000) << stops("qwen")
    driver >> exited("qwen") << nothing


def test_a_server_that_cannot_sleep_is_stopped(new_driver: NewDriver) -> None:
    """Otherwise the step would never end."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama")).with_ready("qwen")
    driver >> arrives(1, "llama") << puts_to_sleep("qwen")
    driver >> handover_requested << nothing
    driver >> cannot_sleep("qwen") << stops("qwen")
    driver >> exited("qwen") << nothing


def test_a_ttl_waits(new_driver: NewDriver) -> None:
    """It is checked again at the end."""
    driver = new_driver(one_at_a_time(model("qwen", ttl_s=30))).with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> leaves(1) << wakes_at(40)
    driver.at(40) >> clock << nothing
    driver.at(41) >> handover_cancelled << stops("qwen", cause=Cause.TTL)


def test_an_operator_who_has_unloaded_a_model_before(driver: SchedulerDriver) -> None:
    """Its requests are cut when their time is over; its stop waits."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver >> handover_requested << nothing
    driver.at(20) >> clock << cuts(1)
    driver >> leaves(1) << nothing

    assert driver.phase("qwen") is Phase.DRAINING
    driver >> handover_cancelled << stops("qwen")
    driver >> exited("qwen") << confirms(2)


@pytest.mark.parametrize("name", ["qwen", "llama"])
def test_an_operator_who_unloads_a_model_meanwhile(driver: SchedulerDriver, name: str) -> None:
    """The unload is decided at the end, whatever has become of the model."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> unload(1, name) << nothing

    assert driver.phase("qwen") is Phase.READY
    if name == "qwen":
        driver >> handover_cancelled << stops("qwen", cause=Cause.OPERATOR)
    else:
        driver >> handover_cancelled << refuses(1, NotRunning)


def test_of_several_new_configurations_the_last_one_counts(driver: SchedulerDriver) -> None:
    """A model that was changed and changed back keeps its process."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> changed(one_at_a_time(model("qwen", version=2))) << nothing
    driver >> unload(1, "gemma") << nothing
    driver >> changed(one_at_a_time("qwen", "llama")) << nothing

    assert ModelName("gemma") not in driver.scheduler.catalog.models
    driver >> arrives(2, "gemma") << refuses(2, UnknownModel)
    driver >> handover_cancelled << refuses(1, NotRunning)


@pytest.mark.parametrize("catalog", [one_at_a_time(model("qwen", version=2)), one_at_a_time("llama")])
def test_a_new_configuration_replaces_processes_after_the_handover(driver: SchedulerDriver, catalog: Catalog) -> None:
    """The names and limits count at once; the process of a changed or removed model stays until then."""
    driver.with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> changed(catalog) << nothing
    driver >> leaves(1) << nothing

    assert driver.phase("qwen") is Phase.READY
    driver >> handover_cancelled << stops("qwen", cause=Cause.CONFIGURATION)


def test_operators_change_several_things_meanwhile(new_driver: NewDriver) -> None:
    """Each change counts, in their order, beside a new configuration, whether the handover is cancelled or not."""
    driver = new_driver(replace(one_at_a_time("qwen", model("llama", ttl_s=60), "gemma"), profiles=PROFILES))
    driver >> handover_requested << nothing
    driver >> OverridesChanged(QWEN, pinned=True) << nothing
    driver >> OverridesChanged(LLAMA, ttl_s=5) << nothing
    driver >> ProfileChanged("night") << nothing
    driver >> FleetModelsChanged({"far": FAR}) << nothing
    driver >> changed(replace(one_at_a_time("qwen", model("llama", ttl_s=30), "new"), profiles=PROFILES)) << nothing
    driver >> OverridesChanged(QWEN) << nothing
    driver >> handover_cancelled << nothing
    catalog = driver.scheduler.catalog

    assert catalog.overrides == {LLAMA: Overrides(ttl_s=5)}
    assert (catalog.active_profile, catalog.fleet_models) == ("night", {"far": FAR})
    driver >> OverridesChanged(LLAMA) << nothing
    driver >> ProfileChanged(None) << nothing
    assert driver.scheduler.catalog.models[LLAMA].ttl_s == 30
    assert driver.scheduler.catalog.active_profile is None


def test_memory_that_others_take_is_freed_afterwards(new_driver: NewDriver) -> None:
    """An unload is a step, too."""
    driver = new_driver(with_budget(model("qwen", gib=14))).with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> left_by_others(10) << nothing
    driver >> handover_cancelled << stops("qwen", cause=Cause.EXCEEDS_MEMORY)


def test_a_yield_refuses_at_once_and_unloads_afterwards(driver: SchedulerDriver) -> None:
    """Nobody waits for what cannot be loaded."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> arrives(1, "llama") << nothing
    driver >> YieldRequested("a game") << refuses(1, Yielding)
    driver >> handover_cancelled << stops("qwen", cause=Cause.YIELD)


def test_limits_refuse_as_usual(new_driver: NewDriver) -> None:
    """A full queue, and a model that never fits."""
    driver = new_driver(with_budget(model("qwen", gib=14), model("huge", gib=99), max_queue=1))
    driver >> handover_requested << nothing
    driver >> arrives(1, "huge") << refuses(1, NeverFits)
    driver >> arrives(2, "qwen") << nothing
    driver >> arrives(3, "qwen") << refuses(3, Busy)
    driver >> handover_cancelled << starts("qwen")


def test_a_server_that_does_not_respond_drains_and_is_stopped_afterwards(driver: SchedulerDriver) -> None:
    """Its requests end at once."""
    driver.with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> unresponsive("qwen") << cuts(1)
    driver >> leaves(1) << nothing
    driver >> handover_cancelled << stops("qwen", cause=Cause.UNRESPONSIVE)


def test_a_shutdown_ends_the_handover(driver: SchedulerDriver) -> None:
    """What was postponed is decided first, so that nobody waits in vain."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> unload(1, "qwen") << nothing
    driver >> shutdown() << stops("qwen", cause=Cause.OPERATOR)
    driver >> exited("qwen") << confirms(1)


def test_a_process_that_shuts_down_is_not_followed_by_another(driver: SchedulerDriver) -> None:
    """Its servers are being stopped."""
    driver.with_ready("qwen", 1)
    driver >> shutdown() << nothing
    driver >> handover_requested << nothing

    assert not driver.scheduler.may_hand_over()
    driver >> leaves(1) << stops("qwen")


def test_a_handover_that_was_not_requested_is_a_bug(driver: SchedulerDriver) -> None:
    """Two schedulers would decide."""
    with pytest.raises(AssertionError):
        driver.scheduler.handover(driver.now)


# The next process


def test_a_request_in_flight_goes_on(driver: SchedulerDriver) -> None:
    """The next process counts it, and it drains like one of its own."""
    driver.with_ready("qwen", 1)
    after = driver.after(5).handed_over()

    view = after.view("qwen")
    assert (view.phase, view.in_flight, view.is_adopted) == (Phase.READY, 1, True)
    assert view.why == "adopted from the previous process"
    assert not after.scheduler.may_hand_over()
    after >> unload(2, "qwen", force=True) << cuts(1)
    after >> leaves(1) << stops("qwen", launch=1)
    after >> exited("qwen") << confirms(2)
    assert not after.view("qwen").is_adopted
    after >> arrives(3, "qwen") << starts("qwen", launch=2)


def test_an_adopted_server_is_evicted_when_its_turn_is_over(driver: SchedulerDriver) -> None:
    """Its turn began when it became ready, and the request has waited as long as it has."""
    driver.with_ready("qwen", 1)
    driver.at(15) >> arrives(2, "llama") << wakes_at(55)
    after = driver.at(50).handed_over() << wakes_at(55)
    after.at(55) >> clock << nothing

    assert after.phase("qwen") is Phase.DRAINING
    after >> leaves(1) << stops("qwen", cause=Cause.EVICTION)


def test_a_server_that_drains_goes_on_draining(driver: SchedulerDriver) -> None:
    """With its reason, its time to be cut, and the operator who waits for it."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    after = driver.at(12).handed_over() << wakes_at(20)

    assert after.why("qwen") == "draining 1 request, then stopping: stopped by an operator"
    after.at(20) >> clock << cuts(1)
    after >> leaves(1) << stops("qwen", cause=Cause.OPERATOR)
    after >> exited("qwen") << confirms(2)


def test_a_server_that_drains_without_a_time_limit(driver: SchedulerDriver) -> None:
    """One that is not used any more is stopped at the end of the handover."""
    driver.with_ready("qwen", 1)
    driver >> unresponsive("qwen") << cuts(1)
    driver >> handover_requested << nothing
    driver >> leaves(1) << nothing
    driver.handed_over() << stops("qwen", cause=Cause.UNRESPONSIVE)


def test_an_unload_that_was_postponed(driver: SchedulerDriver) -> None:
    """The next process decides it; a new configuration it has read itself."""
    driver.with_ready("qwen", 1)
    driver >> handover_requested << nothing
    driver >> changed(one_at_a_time("llama")) << nothing
    driver >> unload(2, "qwen", force=True) << nothing
    driver.handed_over(one_at_a_time("qwen")) << cuts(1)


def test_a_server_that_drains_for_its_sleep_sleeps(new_driver: NewDriver) -> None:
    """The sleep level is known by its name."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama", patience=0)).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing
    after = driver.handed_over() << nothing

    assert (
        after.why("qwen")
        == "draining 1 request, then going to sleep: unloaded for llama: models run one at a time without `devices`"
    )
    after >> leaves(1) << puts_to_sleep("qwen", level("1"))
    after >> asleep("qwen") << starts("llama")


def test_those_who_wait_keep_their_places(driver: SchedulerDriver) -> None:
    """And operators who wait for a load are told when it is done."""
    driver >> load(1, "qwen") << starts("qwen")
    driver >> handover_requested << nothing
    driver.at(1) >> failed("qwen") << refuses(1)
    driver.at(2) >> load(2, "llama") << nothing
    driver.at(3) >> arrives(3, "gemma", reads=True) << nothing
    driver.at(4) >> arrives(4, "llama") << nothing
    after = driver.at(9).handed_over() << starts("llama")

    assert [(each.ticket, each.since) for each in after.scheduler.view(9).queue] == [(2, 2.0), (3, 3.0), (4, 4.0)]
    after.at(12) >> ready("llama") << confirms(2) << grants(4) << wakes_at(24)


def test_a_client_that_floods_the_queue_gets_no_more_places(new_driver: NewDriver) -> None:
    """Tickets are handed over in the order of service, and the oldest one still counts as the oldest."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1))).with_ready("qwen", 1)
    for ticket in range(2, 12):
        driver.after(1) >> arrives(ticket, "qwen", "flood") << nothing
    driver.after(1) >> arrives(20, "qwen", "other") << nothing
    driver >> leaves(1) << grants(2)
    after = driver.handed_over()
    order = [each.ticket for each in driver.scheduler.handover(driver.now).waiting]

    assert order == [3, 4, 5, 6, 7, 8, 9, 20, 10, 11]
    for before, ticket in zip([2, *order], order, strict=False):
        after >> leaves(before) << grants(ticket)


def test_a_queue_that_is_full_is_handed_over_whole(new_driver: NewDriver) -> None:
    """Who was admitted is not refused; who comes later is."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=4)).with_ready("qwen", 1)
    for ticket in (2, 3, 4, 5):
        driver >> arrives(ticket, "qwen", f"client {ticket // 4}") << nothing
    after = driver.handed_over()
    after >> arrives(6, "qwen") << refuses(6, Busy)
    after >> leaves(1) << grants(2)


def test_a_model_asleep_is_woken(new_driver: NewDriver) -> None:
    """How long it sleeps counts on."""
    models = one_at_a_time(model("qwen", sleep=sleeps(ttl_s=60)), "llama")
    driver = new_driver(models).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver.at(11) >> asleep("qwen") << starts("llama") << wakes_at(71)
    driver.at(21) >> ready("llama") << confirms(1)
    after = driver.at(30).handed_over() << wakes_at(71)

    assert after.phase("qwen") is Phase.ASLEEP
    after.at(71) >> clock << stops("qwen", cause=Cause.TTL)


@pytest.mark.parametrize("sleep", [None, sleeps(level("2"))])
def test_a_model_that_sleeps_as_nobody_can_wake_it(new_driver: NewDriver, sleep: object) -> None:
    """Its sleep level is not configured any more."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama")).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver.after(5) >> ready("llama") << confirms(1)
    after = driver.handed_over(one_at_a_time(model("qwen", sleep=sleep), "llama"))
    after << stops("qwen", cause=Cause.CONFIGURATION)


def test_a_server_whose_recipe_has_changed_is_replaced(driver: SchedulerDriver) -> None:
    """As after a reload: its request goes on, and the next one waits for the new server."""
    driver.with_ready("qwen", 1)
    after = driver.handed_over(one_at_a_time(model("qwen", version=2))) << nothing
    after >> arrives(2, "qwen") << nothing

    assert after.phase("qwen") is Phase.DRAINING
    after >> leaves(1) << stops("qwen", cause=Cause.CONFIGURATION)
    after >> exited("qwen") << starts("qwen")
    assert after.version == "v2"


def test_a_server_whose_model_was_removed_is_stopped(driver: SchedulerDriver) -> None:
    """Who waits for it is refused."""
    driver.with_ready("qwen")
    driver >> handover_requested << nothing
    driver >> arrives(1, "gemma") << nothing
    after = driver.handed_over(without(driver.scheduler.catalog, "qwen", "gemma"), refused={1: UnknownModel})
    after << stops("qwen", cause=Cause.CONFIGURATION)
    after >> exited("qwen") << nothing

    assert ModelName("qwen") not in after.scheduler._state.models


def test_a_server_that_has_exited_meanwhile_is_not_adopted(driver: SchedulerDriver) -> None:
    """Its requests end, and the next one starts it."""
    driver.with_ready("qwen", 1)
    after = driver.handed_over(gone={"qwen"})
    after >> leaves(1) << nothing
    after >> arrives(2, "qwen") << starts("qwen", launch=2)


def test_what_a_client_and_a_server_have_said_stays(new_driver: NewDriver) -> None:
    """`keep_alive` and the number of slots belong to the process."""
    driver = new_driver(with_budget(on_any("qwen", None, 0, 1), gib={0: 24, 1: 24})).with_ready("qwen", 1)
    driver >> keep_alive("qwen", None) << nothing
    state = driver.scheduler._state.models[ModelName("qwen")]
    state.slots_reported, state.measured = 1, {gpu(0): 9 * GIB}
    after = driver.handed_over()
    view = after.view("qwen")

    assert (view.ttl_s, view.slots, view.gpus, view.served) == (None, 1, (gpu(0),), 1)
    assert view.measured == {gpu(0): 9 * GIB}
    assert view.footprint is not None
    assert view.footprint.memory[gpu(0)] == 9 * GIB
    after >> arrives(2, "qwen") << nothing


def test_the_measured_memory_of_a_sleeper_is_not_what_it_needs_awake(new_driver: NewDriver) -> None:
    """It is only shown."""
    driver = new_driver(with_budget(model("qwen", sleep=sleeps()), model("llama", gib=20))).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver >> ready("llama") << confirms(1)
    driver.scheduler._state.models[ModelName("qwen")].measured = {gpu(0): GIB}
    after = driver.handed_over()

    assert after.view("qwen").measured == {gpu(0): GIB}
    assert after.scheduler.footprint(ModelName("qwen")) is None


def test_the_figure_of_a_changed_recipe_is_not_that_of_its_old_process(new_driver: NewDriver) -> None:
    """Each recipe has its own."""
    driver = new_driver(with_budget(model("qwen"))).with_ready("qwen", 1)
    driver.scheduler._state.models[ModelName("qwen")].measured = {gpu(0): 9 * GIB}
    after = driver.handed_over(with_budget(model("qwen", version=2)), measured={ModelName("qwen"): {gpu(0): 5 * GIB}})
    first = after.view("qwen").footprint
    after >> leaves(1) << stops("qwen")
    after >> exited("qwen") << nothing
    second = after.view("qwen").footprint

    assert first is not None
    assert second is not None
    assert (first.memory[gpu(0)], second.memory[gpu(0)]) == (9 * GIB, 5 * GIB)


# Failures, evictions and yields


def test_a_model_that_backs_off_goes_on_backing_off(driver: SchedulerDriver) -> None:
    """For the rest of its time."""
    driver.with_backoff("qwen")
    after = driver.at(0.5).handed_over() << wakes_at(2)
    after >> arrives(1, "qwen") << refuses(1)

    assert "failed 2 times in a row" in after.error.message
    assert after.view("qwen").last_error == driver.view("qwen").last_error
    after.at(2) >> clock << nothing
    after >> arrives(2, "qwen") << starts("qwen")
    after >> failed("qwen") << refuses(2) << wakes_at(6)


def test_a_failure_is_counted_on(driver: SchedulerDriver) -> None:
    """The second one in a row makes the model rest."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1)
    after = driver.handed_over()

    assert after.view("qwen").failures == 1
    after >> arrives(2, "qwen") << starts("qwen")
    after >> failed("qwen") << refuses(2) << wakes_at(2)


def test_a_failing_model_that_was_mended_is_tried_at_once(driver: SchedulerDriver) -> None:
    """Its failures are those of another recipe; so are those of a model that was removed."""
    driver.with_backoff("qwen").with_backoff("llama")
    after = driver.handed_over(one_at_a_time(model("qwen", version=2)))

    assert after.view("qwen").failures == 0
    after >> arrives(1, "qwen") << starts("qwen")


def test_a_level_of_sleep_that_has_failed_is_not_tried_again(new_driver: NewDriver) -> None:
    """Until the model is started again, although no start has failed."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps()), "llama")).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> cannot_sleep("qwen") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << confirms(1)
    after = driver.handed_over()

    assert after.scheduler._state.models[QWEN].failed_levels == {"1"}
    assert after.view("qwen").failures == 0


def test_what_other_programs_leave_is_known(new_driver: NewDriver) -> None:
    """Before it is measured again."""
    driver = new_driver(with_budget(model("qwen", gib=14)))
    driver >> left_by_others(10) << nothing
    after = driver.handed_over()

    (refused,) = [after >> arrives(1, "qwen") << refuses(1)]
    assert refused is after
    assert "14 GiB" in after.error.message


def test_a_server_that_answers_after_a_failure_has_proved_itself(driver: SchedulerDriver) -> None:
    """Also in the next process."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1)
    driver.with_ready("qwen", 2)
    after = driver.handed_over()

    assert after.view("qwen").failures == 1
    after >> leaves(2) << nothing
    assert after.view("qwen").failures == 0


def test_models_go_on_rotating(new_driver: NewDriver) -> None:
    """The claim of a model that was evicted counts from then, although its request is older."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama")).with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "qwen") << nothing
    driver.at(12) >> arrives(3, "llama") << wakes_at(92)
    driver.at(92) >> clock << nothing
    driver.at(95) >> leaves(1) << stops("qwen")
    driver >> handover_requested << nothing
    driver.at(96) >> exited("qwen") << nothing
    driver.handed_over() << starts("llama")


@pytest.mark.parametrize("is_removed", [False, True])
def test_saved_conversations_are_restored_by_the_next_process(new_driver: NewDriver, is_removed: bool) -> None:
    """Unless their model was removed."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << saves("qwen")
    driver >> saved("qwen", 1000) << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(2, "llama")
    driver >> leaves(2) << nothing
    after = driver.handed_over(without(driver.scheduler.catalog, "qwen") if is_removed else None)
    if is_removed:
        after >> arrives(3, "qwen") << refuses(3, UnknownModel)
    else:
        after.after(100) >> arrives(3, "qwen") << stops("llama")
        after >> exited("llama") << starts("qwen")
        after >> ready("qwen") << restores("qwen")


def test_a_server_whose_requests_are_unknown_saves(new_driver: NewDriver) -> None:
    """The previous process was killed: nobody knows how many requests the server has had."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen")
    after = driver.handed_over()
    after.after(100) >> arrives(1, "llama") << saves("qwen")


@pytest.mark.parametrize("places", [frozenset(), frozenset({gpu(0)})])
def test_a_yield_goes_on(driver: SchedulerDriver, places: frozenset) -> None:  # type: ignore[type-arg]
    """Until it is over."""
    driver >> YieldRequested("a game", places) << nothing
    after = driver.handed_over()

    assert after.scheduler.view(0).yielding == "a game"
    after >> arrives(1, "qwen") << refuses(1, Yielding)
    after >> YieldEnded() << nothing
    after >> arrives(2, "qwen") << starts("qwen")


def test_a_yield_for_a_program_and_one_for_an_operator(driver: SchedulerDriver) -> None:
    """Each is handed over, also twice, and ends by itself; the reason is that of the program, which needs all."""
    driver >> YieldRequested("training", frozenset({gpu(0)})) << nothing
    driver >> YieldRequested("a game", for_program=True) << nothing
    after = driver.handed_over().handed_over()

    assert set(after.scheduler.yields) == {False, True}
    assert after.scheduler.view(0).yielding == "a game"
    after >> YieldEnded(for_program=True) << nothing
    after >> arrives(1, "qwen") << refuses(1, Yielding)
    assert "training" in after.error.message
    after >> YieldEnded() << nothing
    after >> YieldEnded() << nothing
    after >> arrives(2, "qwen") << starts("qwen")


@pytest.mark.parametrize("fact", [handover_cancelled, clock])
def test_the_end_of_a_handover_that_is_over_changes_nothing(driver: SchedulerDriver, fact: Event) -> None:
    """It may be told twice."""
    driver.with_ready("qwen", 1)
    after = driver.handed_over()
    after >> fact << nothing


def test_an_operator_who_waits_has_forgiven_only_what_was_before(driver: SchedulerDriver) -> None:
    """The failure after the load was requested counts, in this process and in the next."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver.after(10) >> ready("qwen") << grants(1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver >> load(3, "qwen") << nothing
    driver >> handover_requested << nothing
    driver >> exited("qwen") << confirms(2)
    after = driver.handed_over() << starts("qwen")

    assert (driver.view("qwen").failures, after.view("qwen").failures) == (1, 1)


@pytest.mark.parametrize(("ttl_s", "counts"), [(30, 5), (60, 60)])
def test_a_new_ttl_outweighs_what_a_client_said_before(new_driver: NewDriver, ttl_s: float, counts: float) -> None:
    """As after a reload."""
    driver = new_driver(one_at_a_time(model("qwen", ttl_s=30))).with_ready("qwen", 1)
    driver >> keep_alive("qwen", 5) << nothing
    after = driver.handed_over(one_at_a_time(model("qwen", ttl_s=ttl_s))) << nothing

    assert after.view("qwen").ttl_s == counts


def test_a_sleeper_whose_model_was_removed_holds_what_it_kept(new_driver: NewDriver) -> None:
    """Until its process is gone."""
    sleeper = model("qwen", gib=14, sleep=sleeps(level("1", memory={gpu(0): 2 * GIB})))
    driver = new_driver(with_budget(sleeper, model("llama", gib=22))).with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver >> ready("llama") << confirms(1)
    after = driver.handed_over(with_budget(model("llama", gib=22))) << stops("qwen", cause=Cause.CONFIGURATION)

    assert after.scheduler.view(after.now).devices[0].reserved == 24 * GIB


MOST = 2**53
PLAIN = {
    str: st.text(max_size=5),
    int: st.integers(0, MOST),
    bool: st.booleans(),
    float: st.floats(0, 1e9),
    NoneType: st.none(),
    Place: st.builds(Place, st.text(max_size=3), st.text(max_size=3)),
}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type: finite and of a size that JSON can hold."""
    hint = getattr(hint, "__supertype__", hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and (issubclass(hint, Struct) or is_dataclass(hint)):
        return st.builds(hint, **{name: any_of(each) for name, each in get_type_hints(hint).items()})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*map(any_of, get_args(hint)))
    first, *rest = get_args(hint)
    if rest == [...]:
        return st.lists(any_of(first), max_size=2).map(tuple)
    return st.tuples(any_of(first), *map(any_of, rest))


@given(any_of(Handover))
def test_a_handover_is_read_as_it_was_written(handover: Handover) -> None:
    """Whatever it contains."""
    assert from_json(to_json(handover)) == handover


def test_what_a_newer_version_adds_is_ignored() -> None:
    """And what an older one leaves out has its default."""
    server = {
        "model": "qwen",
        "launch": 3,
        "spec": {"recipe": {"argv": ["serve"], "proxy": "http://x"}},
        "mood": "good",
    }
    text = json.dumps({"version": VERSION, "handover": {"servers": [server], "weather": "fine"}})
    (found,) = from_json(text.encode()).servers

    assert (found.model, found.launch, found.leases, found.departure) == ("qwen", 3, (), None)
    assert found.spec.recipe.argv == ("serve",)


def test_an_empty_handover_contains_nothing() -> None:
    """There were neither servers nor requests."""
    assert from_json(json.dumps({"version": VERSION}).encode()) == Handover()


@pytest.mark.parametrize(
    "text", [b"", b"no", b"[]", b"{}", b"\xff", b'{"version": 99}', b'{"version": 1, "handover": {"servers": [{}]}}']
)
def test_what_is_no_handover_of_this_version_is_refused(text: bytes) -> None:
    """The next process then starts as if there were none."""
    with pytest.raises(UnreadableHandover):
        from_json(text)


@pytest.mark.parametrize(
    "spec", [model("qwen"), model("qwen", gib=3), on_any("qwen", 4, 0, 1, count=1), on_any("qwen", None, 0, 1)]
)
def test_a_process_needs_no_restart_after_a_round_trip(spec: Any) -> None:
    """Its recipe, its memory and its cards are the same."""
    again = ProcessSpec.of(spec).as_spec(ModelName("qwen"))

    assert not must_restart(again, spec)
    assert again.gpus is None or gpu(0) in again.gpus.among
