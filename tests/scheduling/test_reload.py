"""The configuration changes while models run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs
from tests.support.catalogs import GIB, gpu, in_sets, model, one_at_a_time, with_budget, with_model, without
from tests.support.scheduler_driver import (
    arrives,
    changed,
    clock,
    confirms,
    exited,
    failed,
    grants,
    handover_cancelled,
    handover_requested,
    leaves,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    unload,
    wakes_at,
)

from hotseat.catalog.groups import Group
from hotseat.errors import UnknownModel
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

RIG = one_at_a_time("qwen", "llama", "gemma")
NEW_QWEN = with_model(RIG, model("qwen", version=2))


def test_the_same_configuration_again(driver: SchedulerDriver) -> None:
    """A reload that changes nothing touches nothing."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    driver >> changed(RIG) << nothing
    assert driver.phase("qwen") is Phase.READY


def test_an_added_model(driver: SchedulerDriver) -> None:
    """A model that was added can be asked for at once."""
    driver >> changed(with_model(RIG, model("phi"))) << nothing

    driver >> arrives(1, "phi") << starts("phi")


def test_a_port_that_another_model_always_needs_now(driver: SchedulerDriver) -> None:
    """The model that was given the port gives it up after its requests, and starts again on another one."""
    driver.with_ready("qwen", 1)
    driver >> CatalogChanged(RIG, displaced=(ModelName("qwen"),)) << nothing
    driver >> arrives(2, "qwen") << nothing
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << starts("qwen")


def test_the_server_of_a_forgotten_model_has_a_port_that_another_one_needs(driver: SchedulerDriver) -> None:
    """It is leaving already."""
    driver >> CatalogChanged(RIG, displaced=(ModelName("gone"),)) << nothing


def test_a_changed_model_in_use(driver: SchedulerDriver) -> None:
    """A changed model finishes its requests under the old recipe and starts under the new one."""
    driver.with_ready("qwen", 1)
    driver >> changed(NEW_QWEN) << nothing
    assert driver.why("qwen") == "draining 1 request, then stopping: its configuration changed"
    driver >> arrives(2, "qwen") << nothing
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << starts("qwen")
    assert driver.version == "v2"


def test_a_changed_model_that_is_idle(driver: SchedulerDriver) -> None:
    """An idle model is stopped at once and not started before the next request."""
    driver.with_ready("qwen")

    driver >> changed(NEW_QWEN) << stops("qwen", cause=Cause.CONFIGURATION)
    driver >> exited("qwen") << nothing


def test_a_new_unload_timeout_counts_for_a_server_that_runs_already(driver: SchedulerDriver) -> None:
    """Whether its model is kept, or restarted because of another change in the same reload."""
    driver.with_ready("qwen")
    driver >> changed(with_model(RIG, model("qwen", unload_timeout_s=30.0))) << nothing
    driver >> unload(1, "qwen") << stops("qwen", within=30)
    driver >> exited("qwen") << confirms(1)
    driver.with_ready("qwen")

    driver >> changed(with_model(RIG, model("qwen", version=2, unload_timeout_s=20.0))) << stops("qwen", within=20)


def test_a_changed_model_that_is_loading(driver: SchedulerDriver) -> None:
    """The load with the old recipe is abandoned; waiting requests are served with the new one."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> changed(NEW_QWEN) << stops("qwen")
    driver >> failed("qwen") << starts("qwen", launch=2)

    driver >> ready("qwen") << grants(1)


def test_a_changed_model_in_backoff(driver: SchedulerDriver) -> None:
    """A new configuration starts with a clean slate."""
    driver.with_backoff("qwen")
    driver >> changed(NEW_QWEN) << nothing
    assert driver.view("qwen").failures == 0

    driver >> arrives(2, "qwen") << starts("qwen")


def test_a_changed_model_that_is_cold(driver: SchedulerDriver) -> None:
    """What is not running is simply started differently."""
    driver >> changed(NEW_QWEN) << nothing

    driver >> arrives(1, "qwen") << starts("qwen")
    assert driver.version == "v2"


def test_a_change_taken_back_while_it_drains(driver: SchedulerDriver) -> None:
    """A model that drains is not revived, not even by its old configuration."""
    driver.with_ready("qwen", 1)
    driver >> changed(NEW_QWEN) << nothing
    driver >> changed(RIG) << nothing

    driver >> leaves(1) << stops("qwen")


def test_only_time_limits_changed(driver: SchedulerDriver) -> None:
    """A new ttl reaches the running process without a restart."""
    driver.with_ready("qwen")

    driver >> changed(with_model(RIG, model("qwen", ttl_s=5))) << wakes_at(15)
    driver.at(15) >> clock << stops("qwen")


def test_a_removed_model_that_somebody_waits_for(driver: SchedulerDriver) -> None:
    """Requests that wait for a removed model are refused with the reason."""
    driver.with_ready("llama", 1)
    driver >> arrives(2, "qwen") << wakes_at(50)

    driver >> changed(without(RIG, "qwen")) << refuses(2, UnknownModel)
    assert driver.error.message == 'model "qwen" was removed from the configuration'


def test_a_removed_model_in_use(driver: SchedulerDriver) -> None:
    """A removed model finishes its requests, stops, and is forgotten."""
    driver.with_ready("qwen", 1)
    driver >> changed(without(RIG, "qwen")) << nothing
    driver >> arrives(2, "qwen") << refuses(2, UnknownModel)
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing

    assert "qwen" not in [seen.name for seen in driver.scheduler.view_of_all(driver.now).models]


def test_a_removed_model_that_is_loading(driver: SchedulerDriver) -> None:
    """Its load is abandoned, and its memory goes to the next waiting model."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing
    driver >> changed(without(RIG, "qwen")) << refuses(1, UnknownModel) << stops("qwen")

    driver >> failed("qwen") << starts("llama")


def test_a_removed_model_can_be_unloaded_by_hand_until_it_is_gone(driver: SchedulerDriver) -> None:
    """An operator may unload a model that the configuration no longer has."""
    driver.with_ready("qwen", 1)
    driver >> changed(without(RIG, "qwen")) << nothing
    driver >> unload(2, "qwen") << wakes_at(20)
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << confirms(2)


def test_a_removed_model_crashes_while_it_drains(driver: SchedulerDriver) -> None:
    """It is forgotten all the same."""
    driver.with_ready("qwen", 1)
    driver >> changed(without(RIG, "qwen")) << nothing
    driver >> exited("qwen") << nothing

    assert "qwen" not in [seen.name for seen in driver.scheduler.view_of_all(driver.now).models]


def test_a_removed_model_comes_back_while_it_drains(driver: SchedulerDriver) -> None:
    """It is the same model again, and starts afresh once its old process is gone."""
    driver.with_ready("qwen", 1)
    driver >> changed(without(RIG, "qwen")) << nothing
    driver >> changed(RIG) << nothing
    driver >> arrives(2, "qwen") << nothing
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << starts("qwen")


def test_a_change_during_a_swap(driver: SchedulerDriver) -> None:
    """The model that memory is being freed for is started with the newest recipe."""
    driver.with_ready("llama")
    driver >> arrives(1, "qwen") << stops("llama")
    driver >> changed(NEW_QWEN) << nothing

    driver >> exited("llama") << starts("qwen")
    assert driver.version == "v2"


def test_a_raised_memory_figure(new_driver: NewDriver) -> None:
    """A model is counted as it was started until it is started again."""
    rig = with_budget(model("qwen", gib=8), model("llama", gib=12))
    driver = new_driver(rig)
    driver.with_ready("qwen", 1)
    driver >> changed(with_model(rig, model("qwen", gib=20))) << nothing
    driver >> arrives(2, "llama") << starts("llama")

    driver >> leaves(1) << stops("qwen")


def test_patience_changed(driver: SchedulerDriver) -> None:
    """The scheduler's knobs are turned without touching any model."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    driver >> changed(replace(RIG, policy=structs.replace(RIG.policy, patience=1))) << wakes_at(30)


# Rules and budgets, for what runs already

FREE = with_budget(model("qwen", gib=8), model("llama", gib=8), model("gemma", gib=8))
APART = replace(FREE, groups=RIG.groups)


def test_models_that_may_no_longer_run_together(new_driver: NewDriver) -> None:
    """Of two idle models that a reload keeps apart, the one with the smaller loss stops."""
    driver = new_driver(FREE)
    driver.with_ready("qwen").with_ready("llama")

    driver >> changed(APART) << stops("qwen", cause=Cause.CONFIGURATION)
    assert driver.reason == "the configuration changed: it may not run together with llama any more"
    driver >> exited("qwen") << nothing


def test_models_in_use_that_may_no_longer_run_together(new_driver: NewDriver) -> None:
    """The one with fewer requests finishes them and stops; its later requests wait for their turn."""
    driver = new_driver(FREE)
    driver.with_ready("qwen", 1, 2).with_ready("llama", 3)
    driver >> changed(APART) << nothing
    assert driver.phase("qwen") is Phase.READY
    driver >> arrives(4, "llama") << nothing
    driver >> leaves(3) << stops("llama")
    driver >> exited("llama") << wakes_at(60)

    driver >> leaves(1) << nothing
    driver >> leaves(2) << stops("qwen")


def test_a_pinned_model_and_one_beside_which_it_may_no_longer_run(new_driver: NewDriver) -> None:
    """The pinned one stays, however busy the other is."""
    pinned = with_model(FREE, model("qwen", gib=8, pinned=True))
    driver = new_driver(pinned)
    driver.with_ready("qwen").with_ready("llama", 1)
    driver >> changed(replace(pinned, groups=RIG.groups)) << nothing

    driver >> leaves(1) << stops("llama")


def test_two_pinned_models_that_may_no_longer_run_together(new_driver: NewDriver) -> None:
    """Both stay: nobody may stop either."""
    pinned = with_budget(model("qwen", gib=8, pinned=True), model("llama", gib=8, pinned=True))
    driver = new_driver(pinned)
    driver.with_ready("qwen").with_ready("llama")

    driver >> changed(replace(pinned, groups=RIG.groups)) << nothing


def test_a_group_that_others_may_join_but_not_the_other_way_round(new_driver: NewDriver) -> None:
    """What may run together if it is loaded in the right order stays, in whatever order it was loaded."""
    driver = new_driver(FREE)
    driver.with_ready("qwen").with_ready("llama")
    beside = Group("side", swap=False, exclusive=False, members=(ModelName("qwen"),))

    driver >> changed(replace(FREE, groups=replace(RIG.groups, groups=(beside,)))) << nothing


def test_a_set_of_the_matrix_is_narrowed(new_driver: NewDriver) -> None:
    """Three models that no set has together any more: the least valuable one leaves."""
    driver = new_driver(FREE)
    driver.with_ready("qwen", 1).with_ready("llama").with_ready("gemma", 2)
    narrowed = in_sets("qwen llama", "qwen gemma", models=("qwen", "llama", "gemma"))

    driver >> changed(replace(FREE, groups=narrowed.groups)) << stops("llama")


def test_devices_are_removed_while_models_run_side_by_side(new_driver: NewDriver) -> None:
    """Without budgets one model runs at a time, so all but the most valuable one leave."""
    driver = new_driver(FREE)
    driver.with_ready("qwen").with_ready("llama", 1).with_ready("gemma")

    driver >> changed(one_at_a_time(*FREE.models.values())) << stops("qwen") << stops("gemma")


def test_a_load_beside_which_a_model_may_no_longer_run(new_driver: NewDriver) -> None:
    """Waiting requests count like running ones: the load goes on, and the idle model leaves."""
    driver = new_driver(FREE)
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << starts("llama")

    driver >> changed(APART) << stops("qwen")
    driver >> ready("llama") << grants(1)


def test_the_rules_change_during_a_handover(new_driver: NewDriver) -> None:
    """Nothing stops while servers are handed over, and the rule applies afterwards."""
    driver = new_driver(FREE)
    driver.with_ready("qwen").with_ready("llama")
    driver >> handover_requested << nothing
    driver >> changed(APART) << nothing

    driver >> handover_cancelled << stops("qwen")


def test_the_next_process_has_other_rules(new_driver: NewDriver) -> None:
    """It adopts all servers, and those that it keeps apart leave as after a reload."""
    driver = new_driver(FREE)
    driver.with_ready("qwen").with_ready("llama")

    driver.handed_over(APART) << stops("qwen")


def test_a_lowered_budget(new_driver: NewDriver) -> None:
    """Idle models leave until the others fit, and models in use when their requests have ended."""
    driver = new_driver(FREE)
    driver.with_ready("qwen", 1).with_ready("llama").with_ready("gemma", 2)
    driver >> changed(replace(FREE, budgets={gpu(0): 8 * GIB})) << stops("llama", cause=Cause.EXCEEDS_MEMORY)
    driver << wakes_at(31)
    driver >> exited("llama") << nothing

    driver >> leaves(2) << nothing
    driver.at(31) >> clock << stops("gemma")
