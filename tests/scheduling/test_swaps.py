"""One model is evicted for another: what is stopped when, and for which claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, with_budget
from tests.support.scheduler_driver import (
    arrives,
    clock,
    confirms,
    exited,
    failed,
    grants,
    leaves,
    load,
    nothing,
    ready,
    starts,
    stops,
    wakes_at,
)

from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_an_idle_model_leaves_at_once(driver: SchedulerDriver) -> None:
    """No request waits for the sake of an unused model."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")

    driver >> ready("llama") << grants(1)


def test_a_whole_swap(driver: SchedulerDriver) -> None:
    """A model in use keeps its turn, finishes its requests and stops; only then its memory is free."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    assert driver.phase("qwen") is Phase.DRAINING
    driver >> arrives(3, "qwen") << nothing
    driver.at(52) >> leaves(1) << stops("qwen")
    driver.at(53) >> exited("qwen") << starts("llama")

    driver.at(63) >> ready("llama") << grants(2) << wakes_at(143)


def test_a_swap_says_why(driver: SchedulerDriver) -> None:
    """The reason of a stop names the model that needs the memory."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen", cause=Cause.EVICTION)

    assert driver.reason == "unloaded for llama: models run one at a time without `devices`"


def test_memory_is_free_when_the_process_is_gone(driver: SchedulerDriver) -> None:
    """Telling a server to stop gives no memory back: its exit does."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")

    driver >> arrives(2, "gemma") << nothing
    driver.after(500) >> clock << nothing
    driver >> exited("qwen") << starts("llama")


def test_a_request_for_a_stopping_model_waits_for_a_fresh_start(driver: SchedulerDriver) -> None:
    """A model that was told to stop is not revived: it is started again when it is gone."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen", launch=1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << nothing

    driver >> exited("qwen") << starts("qwen", launch=2)


def test_the_one_who_asked_for_a_swap_leaves_before_the_drain_ends(driver: SchedulerDriver) -> None:
    """A drain that has begun is finished, and nothing is loaded for a client that is gone."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver >> leaves(2) << nothing

    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing


def test_an_abandoned_load_is_aborted_for_who_waits(driver: SchedulerDriver) -> None:
    """A load that no request waits for is abandoned for one that requests wait for."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing

    driver >> leaves(1) << stops("qwen", cause=Cause.EVICTION)
    assert (
        driver.reason
        == "unloaded for llama: models run one at a time without `devices`; no request was waiting for it any more"
    )
    driver >> failed("qwen") << starts("llama")


def test_a_load_that_somebody_waits_for_is_finished(driver: SchedulerDriver) -> None:
    """A model is not stopped before it served the requests that waited for it."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing
    assert driver.why("llama") == "waiting for qwen to finish loading (its usual time is not known yet)"
    driver.after(500) >> clock << nothing

    driver >> ready("qwen") << grants(1) << wakes_at(500 + 2 * (500 + 500))
    assert driver.phase("qwen") is Phase.READY


def test_a_server_becomes_ready_after_its_stop_began(driver: SchedulerDriver) -> None:
    """Readiness that comes too late changes nothing: the server is on its way out."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing
    driver >> leaves(1) << stops("qwen")
    driver >> ready("qwen") << nothing
    assert driver.phase("qwen") is Phase.UNLOADING

    driver >> exited("qwen") << starts("llama")


def test_a_fact_about_an_earlier_process(driver: SchedulerDriver) -> None:
    """An event about a process that is gone does not affect its successor."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen", launch=1)
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << stops("llama")
    driver >> exited("llama") << starts("qwen", launch=3)

    driver >> exited("qwen", launch=1) << nothing
    driver >> failed("qwen", launch=1) << nothing
    driver >> ready("qwen", launch=1) << nothing
    driver >> ready("qwen") << grants(2)


def test_a_fact_about_a_model_nobody_knows(driver: SchedulerDriver) -> None:
    """A late word about a model that was removed is of no interest."""
    driver >> exited("gone", launch=1) << nothing


def test_the_oldest_claim_goes_first(driver: SchedulerDriver) -> None:
    """Of requests for different models, the oldest is served first."""
    driver.with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "llama") << wakes_at(51)
    driver.at(12) >> arrives(3, "gemma") << nothing
    driver.at(13) >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << starts("llama")

    assert driver.why("gemma") == "waiting for llama to finish loading (its usual time is not known yet)"


def test_two_who_wait_do_not_take_the_same_victim(new_driver: NewDriver) -> None:
    """What was cleared for the older claim is not given to a younger one, even if that would fit sooner."""
    big, small = model("big", gib=20), model("small", gib=4)
    driver = new_driver(with_budget(model("qwen", gib=12), model("llama", gib=10), big, small))
    driver.with_ready("qwen").with_ready("llama")
    driver >> arrives(1, "big") << stops("qwen") << stops("llama")
    driver >> exited("qwen") << nothing
    driver >> arrives(2, "small") << starts("small")
    driver >> arrives(3, "qwen") << nothing

    driver >> exited("llama") << starts("big")


def test_a_younger_claim_outlasts_an_older_ones_drain(new_driver: NewDriver) -> None:
    """A model with promised memory but without a process is not a victim."""
    driver = new_driver(with_budget(model("qwen", gib=20), model("llama", gib=20), model("gemma", gib=20)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver.at(51) >> arrives(3, "gemma") << nothing

    driver.at(500) >> arrives(4, "gemma") << nothing
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << starts("llama")


def test_why_those_wait_whose_memory_is_being_freed(driver: SchedulerDriver) -> None:
    """From the start of the drain, waiting requests show it as their reason."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    keeps = "qwen is protected for at most 40.0 s more (1 request running)"
    assert driver.why("llama") == keeps

    driver.at(50) >> clock << nothing
    assert driver.why("llama") == "draining qwen (1 request running for 40 s), then loading llama"


def test_why_a_younger_claim_waits(driver: SchedulerDriver) -> None:
    """The reason names the older claim that the memory is promised to."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> arrives(2, "gemma") << nothing

    assert driver.why("gemma") == "2nd in queue, behind llama (waiting for 0 s)"


def test_a_loaded_model_that_only_an_operator_wanted_leaves_at_once(driver: SchedulerDriver) -> None:
    """An operator's load is not a use: waiting requests come first."""
    driver >> load(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing

    driver >> ready("qwen") << confirms(1) << stops("qwen")
