"""The configuration changes while models run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time, with_budget, with_model, without
from tests.support.playbook import (
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
    from tests.support.playbook import Playbook, Stage

RIG = one_at_a_time("qwen", "llama", "gemma")
NEW_QWEN = with_model(RIG, model("qwen", version=2))


def test_the_same_configuration_again(yard: Playbook) -> None:
    """A reload that changes nothing touches nothing."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    yard >> changed(RIG) << nothing
    assert yard.phase("qwen") is Phase.READY


def test_an_added_model(yard: Playbook) -> None:
    """A model that was added can be asked for at once."""
    yard >> changed(with_model(RIG, model("phi"))) << nothing

    yard >> arrives(1, "phi") << starts("phi")


def test_a_changed_model_in_use(yard: Playbook) -> None:
    """A changed model finishes its requests under the old recipe and starts under the new one."""
    yard.with_ready("qwen", 1)
    yard >> changed(NEW_QWEN) << nothing
    assert yard.why("qwen") == "draining 1 request, then stopping: its configuration changed"
    yard >> arrives(2, "qwen") << nothing
    yard >> leaves(1) << stops("qwen")

    yard >> exited("qwen") << starts("qwen")
    assert yard.version == "v2"


def test_a_changed_model_that_is_idle(yard: Playbook) -> None:
    """An idle model is stopped at once and not started before the next request."""
    yard.with_ready("qwen")

    yard >> changed(NEW_QWEN) << stops("qwen", cause=Cause.CONFIGURATION)
    yard >> exited("qwen") << nothing


def test_a_changed_model_that_is_loading(yard: Playbook) -> None:
    """The load with the old recipe is abandoned; waiting requests are served with the new one."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> changed(NEW_QWEN) << stops("qwen")
    yard >> failed("qwen") << starts("qwen", launch=2)

    yard >> ready("qwen") << grants(1)


def test_a_changed_model_in_backoff(yard: Playbook) -> None:
    """A new configuration starts with a clean slate."""
    yard.with_backoff("qwen")
    yard >> changed(NEW_QWEN) << nothing
    assert yard.view("qwen").failures == 0

    yard >> arrives(2, "qwen") << starts("qwen")


def test_a_changed_model_that_is_cold(yard: Playbook) -> None:
    """What is not running is simply started differently."""
    yard >> changed(NEW_QWEN) << nothing

    yard >> arrives(1, "qwen") << starts("qwen")
    assert yard.version == "v2"


def test_a_change_taken_back_while_it_drains(yard: Playbook) -> None:
    """A model that drains is not revived, not even by its old configuration."""
    yard.with_ready("qwen", 1)
    yard >> changed(NEW_QWEN) << nothing
    yard >> changed(RIG) << nothing

    yard >> leaves(1) << stops("qwen")


def test_only_time_limits_changed(yard: Playbook) -> None:
    """A new ttl reaches the running process without a restart."""
    yard.with_ready("qwen")

    yard >> changed(with_model(RIG, model("qwen", ttl_s=5))) << wakes_at(15)
    yard.at(15) >> clock << stops("qwen")


def test_a_removed_model_that_somebody_waits_for(yard: Playbook) -> None:
    """Requests that wait for a removed model are refused with the reason."""
    yard.with_ready("llama", 1)
    yard >> arrives(2, "qwen") << wakes_at(50)

    yard >> changed(without(RIG, "qwen")) << refuses(2, UnknownModel)
    assert yard.error.message == 'model "qwen" was removed from the configuration'


def test_a_removed_model_in_use(yard: Playbook) -> None:
    """A removed model finishes its requests, stops, and is forgotten."""
    yard.with_ready("qwen", 1)
    yard >> changed(without(RIG, "qwen")) << nothing
    yard >> arrives(2, "qwen") << refuses(2, UnknownModel)
    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << nothing

    assert "qwen" not in [seen.name for seen in yard.scheduler.view(yard.now).models]


def test_a_removed_model_that_is_loading(yard: Playbook) -> None:
    """Its load is abandoned, and its memory goes to the next waiting model."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing
    yard >> changed(without(RIG, "qwen")) << refuses(1, UnknownModel) << stops("qwen")

    yard >> failed("qwen") << starts("llama")


def test_a_removed_model_can_be_unloaded_by_hand_until_it_is_gone(yard: Playbook) -> None:
    """An operator may unload a model that the configuration no longer has."""
    yard.with_ready("qwen", 1)
    yard >> changed(without(RIG, "qwen")) << nothing
    yard >> unload(2, "qwen") << wakes_at(20)
    yard >> leaves(1) << stops("qwen")

    yard >> exited("qwen") << confirms(2)


def test_a_removed_model_crashes_while_it_drains(yard: Playbook) -> None:
    """It is forgotten all the same."""
    yard.with_ready("qwen", 1)
    yard >> changed(without(RIG, "qwen")) << nothing
    yard >> exited("qwen") << nothing

    assert "qwen" not in [seen.name for seen in yard.scheduler.view(yard.now).models]


def test_a_removed_model_comes_back_while_it_drains(yard: Playbook) -> None:
    """It is the same model again, and starts afresh once its old process is gone."""
    yard.with_ready("qwen", 1)
    yard >> changed(without(RIG, "qwen")) << nothing
    yard >> changed(RIG) << nothing
    yard >> arrives(2, "qwen") << nothing
    yard >> leaves(1) << stops("qwen")

    yard >> exited("qwen") << starts("qwen")


def test_a_change_during_a_swap(yard: Playbook) -> None:
    """The model that memory is being freed for is started with the newest recipe."""
    yard.with_ready("llama")
    yard >> arrives(1, "qwen") << stops("llama")
    yard >> changed(NEW_QWEN) << nothing

    yard >> exited("llama") << starts("qwen")
    assert yard.version == "v2"


def test_a_raised_memory_figure(stage: Stage) -> None:
    """A model is counted as it was started until it is started again."""
    rig = with_budget(model("qwen", gib=8), model("llama", gib=12))
    yard = stage(rig)
    yard.with_ready("qwen", 1)
    yard >> changed(with_model(rig, model("qwen", gib=20))) << nothing
    yard >> arrives(2, "llama") << starts("llama")

    yard >> leaves(1) << stops("qwen")


def test_patience_changed(yard: Playbook) -> None:
    """The scheduler's knobs are turned without touching any model."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    yard >> changed(replace(RIG, policy=replace(RIG.policy, patience=1))) << wakes_at(30)
