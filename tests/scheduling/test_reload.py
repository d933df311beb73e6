"""The configuration changes while models run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs
from tests.support.catalogs import model, one_at_a_time, with_budget, with_model, without
from tests.support.scheduler_driver import (
    arrives,
    changed,
    clock,
    confirms,
    exited,
    failed,
    grants,
    leaves,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    unload,
    wakes_at,
)

from hotseat.errors import UnknownModel
from hotseat.scheduling.commands import Cause
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
