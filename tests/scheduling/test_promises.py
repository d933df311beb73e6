"""The promises that other proxies broke in production, one regression test each.

S1 to S5 are the scheduler's mandatory promises; the I-numbers are those of the world in test_world.py that a short
play can show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import (
    arrives,
    changed,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    wakes_at,
)

from hotseat.errors import NeverFits
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_s1_requests_for_a_resident_model_cannot_starve_a_waiting_one(driver: SchedulerDriver) -> None:
    """However many requests keep the resident model busy, its turn against a waiting one ends."""
    driver.with_ready("qwen", 1)
    driver >> arrives(1000, "llama") << wakes_at(50)
    for second in range(11, 50):
        driver.at(second) >> arrives(second, "qwen") << grants(second)
        driver >> leaves(second - 1 if second > 11 else 1) << nothing
    driver.at(50) >> clock << wakes_at(54)
    driver.at(54) >> clock << nothing

    driver >> arrives(51, "qwen") << nothing
    driver >> leaves(49) << stops("qwen")
    driver >> exited("qwen") << starts("llama")


def test_s2_nothing_is_evicted_for_a_model_that_cannot_be_had(new_driver: NewDriver) -> None:
    """Whether it fits once every model left that may is computed before any is stopped."""
    rig = with_budget(model("pin", gib=6, pinned=True), model("a", gib=9), model("b", gib=9), model("big", gib=19))
    driver = new_driver(rig)
    driver.with_ready("pin").with_ready("a").with_ready("b")

    driver >> arrives(1, "big") << refuses(1, NeverFits) << nothing


def test_s3_a_grant_holds_its_model_before_the_client_knows(driver: SchedulerDriver) -> None:
    """A model that has just become ready is not evicted between its readiness and its first request."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver.at(1) >> arrives(2, "llama") << nothing
    driver.at(2) >> arrives(3, "gemma") << nothing

    driver.at(10) >> ready("qwen") << grants(1) << wakes_at(50)
    assert driver.phase("qwen") is Phase.READY


def test_s3_one_victim_serves_one_waiter(driver: SchedulerDriver) -> None:
    """Two claims for the memory of one model: one gets it, the other waits for the next."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> arrives(2, "gemma") << nothing
    driver >> exited("qwen") << starts("llama")
    driver.at(20) >> ready("llama") << grants(1) << wakes_at(60)

    driver >> leaves(1) << stops("llama")
    driver >> exited("llama") << starts("gemma")


def test_s4_a_stopping_process_is_never_revived(driver: SchedulerDriver) -> None:
    """Requests for a model that drains or stops queue up for a fresh start."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver >> leaves(2) << nothing
    driver >> arrives(3, "qwen") << nothing
    driver >> leaves(1) << stops("qwen", launch=1)
    driver >> arrives(4, "qwen") << nothing

    driver >> exited("qwen") << starts("qwen", launch=2)


def test_s5_the_age_of_the_oldest_ticket_can_be_watched(driver: SchedulerDriver) -> None:
    """Monitoring sees since when the oldest request waits."""
    driver.with_ready("qwen", 1)
    driver.at(12) >> arrives(2, "llama") << wakes_at(52)
    driver.at(13) >> arrives(3, "gemma") << nothing

    assert driver.scheduler.view(20).queue[0].since == 12


def test_i1_memory_of_a_stopping_process_is_not_free(new_driver: NewDriver) -> None:
    """Loading, ready and stopping processes together stay within the budget."""
    driver = new_driver(with_budget(model("a", gib=14), model("b", gib=14), model("c", gib=11)))
    driver.with_ready("a")
    driver >> arrives(1, "b") << stops("a")
    driver >> arrives(2, "c") << nothing

    driver >> exited("a") << starts("b")


def test_i2_a_model_has_one_process(driver: SchedulerDriver) -> None:
    """Neither a second request nor a stop under way starts a second process."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "qwen") << nothing
    driver >> arrives(3, "llama") << nothing
    driver >> leaves(1) << nothing

    driver >> leaves(2) << stops("qwen")
    driver >> arrives(4, "qwen") << nothing


def test_i8_a_cancelled_request_frees_its_slot(new_driver: NewDriver) -> None:
    """A client that disconnects during its response frees its slot at once."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing

    driver >> leaves(1) << grants(2)


def test_i9_the_same_configuration_is_no_change(driver: SchedulerDriver) -> None:
    """A reload of the same file stops, starts and refuses nothing."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> changed(one_at_a_time("qwen", "llama", "gemma")) << nothing

    driver >> ready("qwen") << grants(1)


def test_i11_a_disconnect_does_not_unload_a_fresh_model(new_driver: NewDriver) -> None:
    """A model whose only client hung up during the load stays for its whole ttl."""
    driver = new_driver(one_at_a_time(model("qwen", ttl_s=60)))
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> leaves(1) << nothing
    driver.at(30) >> ready("qwen") << wakes_at(90)

    driver.at(89) >> arrives(2, "qwen") << grants(2)


def test_i12_a_slow_stop_delays_nobody_else(new_driver: NewDriver) -> None:
    """Requests for another resident model are served while one takes its time to stop."""
    driver = new_driver(with_budget(model("a", gib=12), model("b", gib=12), model("c", gib=12)))
    driver.with_ready("a").with_ready("b", 1)
    driver >> arrives(2, "c") << stops("a")

    driver.after(400) >> arrives(3, "b") << grants(3)
