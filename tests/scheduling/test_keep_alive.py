"""A client says how long its model stays loaded: Ollama's `keep_alive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, sleeps, with_budget, with_model
from tests.support.scheduler_driver import (
    arrives,
    asleep,
    awake,
    changed,
    clock,
    confirms,
    exited,
    grants,
    keep_alive,
    leaves,
    load,
    nothing,
    puts_to_sleep,
    ready,
    starts,
    stops,
    unload,
    wakes,
    wakes_at,
)

from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


@pytest.fixture
def driver(new_driver: NewDriver) -> SchedulerDriver:
    """A model that is unloaded after thirty unused seconds, and one that is not."""
    return new_driver(one_at_a_time(model("qwen", ttl_s=30), "llama"))


def test_it_replaces_the_ttl_of_an_idle_model(driver: SchedulerDriver) -> None:
    """The time counts from the end of the last request, as a ttl does."""
    driver.with_ready("qwen", 1)
    driver.at(20) >> leaves(1) << wakes_at(50)
    driver.at(25) >> keep_alive("qwen", 100) << wakes_at(120)

    driver.at(50) >> clock << wakes_at(120)
    driver.at(120) >> clock << stops("qwen", cause=Cause.TTL)
    assert driver.reason == "idle, and a client wanted to keep it for 100 s (keep_alive)"


def test_it_gives_a_ttl_to_a_model_without_one(driver: SchedulerDriver) -> None:
    """A client that asks for it during its request finds it respected after the request."""
    driver.with_ready("llama", 1)
    driver >> keep_alive("llama", 60) << nothing

    driver.at(20) >> leaves(1) << wakes_at(80)
    driver.at(80) >> clock << stops("llama", cause=Cause.TTL)


def test_a_model_is_kept(driver: SchedulerDriver) -> None:
    """Without an end, it stays until its memory is needed."""
    driver.with_ready("qwen", 1)
    driver >> keep_alive("qwen", None) << nothing
    driver >> leaves(1) << nothing
    driver.at(10_000) >> clock << nothing

    driver >> arrives(2, "llama") << stops("qwen", cause=Cause.EVICTION)


def test_an_idle_model_is_unloaded_at_once(driver: SchedulerDriver) -> None:
    """0 unloads a model that no request uses."""
    driver.with_ready("llama")

    driver >> keep_alive("llama", 0) << stops("llama", cause=Cause.TTL)
    assert driver.reason == "a client wanted it unloaded as soon as it is idle (keep_alive)"


def test_a_model_in_use_is_unloaded_when_it_is_idle(driver: SchedulerDriver) -> None:
    """0 cuts nobody: the model leaves with the end of its last request."""
    driver.with_ready("llama", 1, 2)
    driver >> keep_alive("llama", 0) << nothing
    driver >> leaves(1) << nothing
    driver >> arrives(3, "llama") << grants(3)
    driver >> leaves(2) << nothing

    driver >> leaves(3) << stops("llama", cause=Cause.TTL)


def test_requests_that_wait_are_served_first(new_driver: NewDriver) -> None:
    """0 unloads no model that somebody waits for."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing
    driver >> keep_alive("qwen", 0) << nothing
    driver >> leaves(1) << grants(2)

    driver >> leaves(2) << stops("qwen", cause=Cause.TTL)


def test_a_model_that_loads_is_unloaded_after_its_requests(driver: SchedulerDriver) -> None:
    """0 does not abandon a load that a request waits for."""
    driver >> arrives(1, "llama") << starts("llama")
    driver >> keep_alive("llama", 0) << nothing
    driver.at(10) >> ready("llama") << grants(1)

    driver >> leaves(1) << stops("llama")


def test_a_model_that_does_not_run_has_nothing_to_keep(driver: SchedulerDriver) -> None:
    """The value is forgotten: the next load may be for another client."""
    driver >> keep_alive("llama", 0) << nothing
    driver.with_ready("llama", 1)

    driver >> leaves(1) << nothing
    assert driver.phase("llama") is Phase.READY


def test_the_next_process_has_the_configured_ttl(driver: SchedulerDriver) -> None:
    """An unload ends what a client wanted."""
    driver.with_ready("qwen", 1)
    driver >> keep_alive("qwen", None) << nothing
    driver >> leaves(1) << nothing
    driver >> unload(2, "qwen") << stops("qwen")
    driver >> exited("qwen") << confirms(2)

    driver >> load(3, "qwen") << starts("qwen")
    driver.at(100) >> ready("qwen") << confirms(3) << wakes_at(130)


def test_the_last_client_decides(driver: SchedulerDriver) -> None:
    """A later value replaces the earlier one, and the same again changes nothing."""
    driver.with_ready("llama")
    driver >> keep_alive("llama", 60) << wakes_at(70)
    driver >> keep_alive("llama", 60) << nothing
    driver >> keep_alive("llama", 20) << wakes_at(30)

    driver.at(30) >> clock << stops("llama")


def test_a_pinned_model_stays_pinned(new_driver: NewDriver) -> None:
    """A client cannot unload what the configuration pins."""
    driver = new_driver(one_at_a_time(model("qwen", pinned=True)))
    driver.with_ready("qwen")

    driver >> keep_alive("qwen", 0) << nothing
    assert driver.view("qwen").expires_at is None
    assert driver.why("qwen").endswith("it is pinned, so the keep_alive of a client has no effect")


def test_it_survives_a_sleep(new_driver: NewDriver) -> None:
    """A model that sleeps keeps its process, and with it what the client wanted."""
    driver = new_driver(with_budget(model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20)))
    driver.with_ready("qwen", 1)
    driver >> keep_alive("qwen", 50) << nothing
    driver >> leaves(1) << wakes_at(60)
    driver >> arrives(2, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver >> ready("llama") << grants(2)
    driver >> leaves(2) << nothing
    driver >> arrives(3, "qwen") << stops("llama")
    driver >> exited("llama") << wakes("qwen")
    driver.at(100) >> awake("qwen") << grants(3)

    driver >> leaves(3) << wakes_at(150)


def test_a_model_that_sleeps_is_unloaded(new_driver: NewDriver) -> None:
    """0 ends its process, which keeps memory; another value counts when it is awake again."""
    driver = new_driver(with_budget(model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20)))
    driver.with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("llama")
    driver >> keep_alive("qwen", 5) << nothing

    driver.at(90) >> keep_alive("qwen", 0) << stops("qwen", cause=Cause.TTL)
    assert driver.reason == "a client wanted it unloaded as soon as it is idle (keep_alive)"


def test_a_model_that_falls_asleep_is_unloaded(new_driver: NewDriver) -> None:
    """0 that arrives meanwhile counts when it sleeps."""
    driver = new_driver(with_budget(model("qwen", gib=20, sleep=sleeps()), model("llama", gib=20)))
    driver.with_ready("qwen")
    driver >> load(1, "llama") << puts_to_sleep("qwen")
    driver >> keep_alive("qwen", 0) << nothing

    driver >> asleep("qwen") << starts("llama") << stops("qwen", cause=Cause.TTL)


def test_a_ttl_that_is_set_later_counts(driver: SchedulerDriver) -> None:
    """An operator outweighs what a client wanted before; a reload that leaves the ttl alone changes nothing."""
    driver.with_ready("qwen", 1)
    driver >> keep_alive("qwen", None) << nothing
    driver >> leaves(1) << nothing
    driver >> changed(with_model(driver.scheduler.catalog, model("qwen", ttl_s=30, concurrency_limit=3))) << nothing
    driver >> changed(with_model(driver.scheduler.catalog, model("qwen", ttl_s=5))) << wakes_at(15)

    driver.at(15) >> clock << stops("qwen", cause=Cause.TTL)
    assert driver.reason == "idle for its ttl of 5 s"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "a client wanted to keep it until its memory is needed (keep_alive)"),
        (0, "a client wanted it unloaded as soon as it is idle (keep_alive)"),
        (90, "a client wanted to keep it for 90 s without requests (keep_alive)"),
    ],
)
def test_the_reason_of_a_ready_model_mentions_it(driver: SchedulerDriver, seconds: float | None, words: str) -> None:
    """`hotseat why` shows who decides how long it stays."""
    driver.with_ready("llama", 1)
    driver >> keep_alive("llama", seconds) << nothing

    assert driver.why("llama") == f"started for 1 request; {words}"
    assert driver.view("llama").ttl_s == seconds


def test_a_model_that_is_gone(driver: SchedulerDriver) -> None:
    """A name that was removed from the configuration is no error."""
    driver >> keep_alive("nobody", 5) << nothing
