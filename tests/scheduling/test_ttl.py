"""Unused models are unloaded by their ttl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import (
    arrives,
    clock,
    confirms,
    exited,
    grants,
    leaves,
    load,
    nothing,
    ready,
    starts,
    stops,
    upstream_of,
    wakes_at,
)

from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


@pytest.fixture
def driver_with_ttl(new_driver: NewDriver) -> SchedulerDriver:
    """One model that is unloaded after thirty unused seconds."""
    return new_driver(one_at_a_time(model("qwen", ttl_s=30), "llama"))


def test_an_unused_model_is_unloaded(driver_with_ttl: SchedulerDriver) -> None:
    """The ttl counts from the end of the last request."""
    driver_with_ttl.with_ready("qwen", 1)
    driver_with_ttl.at(20) >> leaves(1) << wakes_at(50)

    driver_with_ttl.at(50) >> clock << stops("qwen", cause=Cause.TTL)
    assert driver_with_ttl.reason == "idle for its ttl of 30 s"


def test_use_begins_the_ttl_anew(driver_with_ttl: SchedulerDriver) -> None:
    """A request in between postpones the end."""
    driver_with_ttl.with_ready("qwen", 1)
    driver_with_ttl.at(20) >> leaves(1) << wakes_at(50)
    driver_with_ttl.at(40) >> arrives(2, "qwen") << grants(2)
    driver_with_ttl.at(45) >> leaves(2) << nothing

    driver_with_ttl.at(50) >> clock << wakes_at(75)
    driver_with_ttl.at(75) >> clock << stops("qwen")


def test_a_model_in_use_has_no_ttl(driver_with_ttl: SchedulerDriver) -> None:
    """The longest answer is not cut short by a ttl."""
    driver_with_ttl.with_ready("qwen", 1)

    driver_with_ttl.at(10_000) >> clock << nothing
    assert driver_with_ttl.phase("qwen") is Phase.READY


def test_only_servers_with_requests_are_in_use(driver_with_ttl: SchedulerDriver) -> None:
    """With their address and their health check, for whoever looks after them."""
    driver_with_ttl.with_ready("qwen", 1)
    [used] = driver_with_ttl.scheduler.in_use()
    driver_with_ttl.at(20) >> leaves(1) << wakes_at(50)

    assert (used.model, used.upstream) == ("qwen", upstream_of("qwen"))
    assert driver_with_ttl.scheduler.in_use() == []


def test_one_of_two_requests_leaves(driver_with_ttl: SchedulerDriver) -> None:
    """A model is unused when the last of its requests has left."""
    driver_with_ttl.with_ready("qwen", 1, 2)

    driver_with_ttl.at(20) >> leaves(1) << nothing
    driver_with_ttl.at(21) >> leaves(2) << wakes_at(51)


def test_the_client_left_while_it_loaded(driver_with_ttl: SchedulerDriver) -> None:
    """A fresh model stays for its ttl even if no request uses it."""
    driver_with_ttl >> arrives(1, "qwen") << starts("qwen")
    driver_with_ttl >> leaves(1) << nothing

    driver_with_ttl.at(10) >> ready("qwen") << wakes_at(40)


def test_an_operators_load_stays_for_the_ttl(driver_with_ttl: SchedulerDriver) -> None:
    """A model loaded ahead of its use waits for it as long as its ttl."""
    driver_with_ttl >> load(1, "qwen") << starts("qwen")

    driver_with_ttl.at(10) >> ready("qwen") << confirms(1) << wakes_at(40)
    assert driver_with_ttl.view("qwen").expires_at == 40


def test_a_request_at_the_very_moment(driver_with_ttl: SchedulerDriver) -> None:
    """A request granted at the instant the ttl ends keeps its model."""
    driver_with_ttl.with_ready("qwen", 1)
    driver_with_ttl.at(20) >> leaves(1) << wakes_at(50)
    driver_with_ttl.at(50) >> arrives(2, "qwen") << grants(2)

    driver_with_ttl >> clock << nothing
    assert driver_with_ttl.phase("qwen") is Phase.READY


def test_a_request_just_after_the_end(driver_with_ttl: SchedulerDriver) -> None:
    """A request that arrives while the model stops waits for a fresh start."""
    driver_with_ttl.with_ready("qwen", 1)
    driver_with_ttl.at(20) >> leaves(1) << wakes_at(50)
    driver_with_ttl.at(50) >> clock << stops("qwen")
    driver_with_ttl >> arrives(2, "qwen") << nothing

    driver_with_ttl >> exited("qwen") << starts("qwen")


def test_a_pinned_model_has_no_ttl(new_driver: NewDriver) -> None:
    """Pinned models stay, used or not."""
    driver = new_driver(one_at_a_time(model("qwen", ttl_s=30, pinned=True)))
    driver.with_ready("qwen", 1)

    driver >> leaves(1) << nothing
    driver.at(500) >> clock << nothing
    assert driver.view("qwen").expires_at is None


def test_the_nearest_end_wakes_first(new_driver: NewDriver) -> None:
    """One timer serves every ttl."""
    driver = new_driver(with_budget(model("qwen", gib=8, ttl_s=60), model("llama", gib=8, ttl_s=30)))
    driver.with_ready("qwen", 1).with_ready("llama", 2)

    driver.at(30) >> leaves(1) << wakes_at(90)
    driver.at(31) >> leaves(2) << wakes_at(61)
    driver.at(61) >> clock << stops("llama") << wakes_at(90)


def test_idle_while_somebody_waits_elsewhere(new_driver: NewDriver) -> None:
    """A ttl ends on time also while others are being loaded."""
    driver = new_driver(with_budget(model("qwen", gib=8, ttl_s=30), model("llama", gib=8)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << starts("llama")
    driver.at(20) >> leaves(1) << wakes_at(50)

    driver.at(50) >> clock << stops("qwen")
