"""How long a model in use is protected, and which one is next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import (
    arrives,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    ready,
    starts,
    stops,
    wakes_at,
)

from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import Expected, NewDriver, Nothing, SchedulerDriver


def test_a_turn_is_patience_times_the_swap_there_and_back(driver: SchedulerDriver) -> None:
    """With both loads at ten seconds and patience 2, a turn against a claim is forty seconds."""
    driver.with_ready("qwen", 1)

    driver.at(15) >> arrives(2, "llama") << wakes_at(15 + 2 * (10 + 10))


@pytest.mark.parametrize(("patience", "turn"), [(0.5, 10), (1, 20), (4, 80)])
def test_patience_stretches_the_turn(new_driver: NewDriver, patience: float, turn: float) -> None:
    """The one knob scales every turn."""
    driver = new_driver(one_at_a_time("qwen", "llama", patience=patience))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "llama") << wakes_at(10 + turn)


def test_no_patience(new_driver: NewDriver) -> None:
    """Without patience a model in use leaves as soon as another is requested."""
    driver = new_driver(one_at_a_time("qwen", "llama", patience=0))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "llama") << nothing
    assert driver.phase("qwen") is Phase.DRAINING


def test_urgency_shortens_the_turn_of_others(new_driver: NewDriver) -> None:
    """A model four times as urgent waits a quarter of the turn."""
    driver = new_driver(one_at_a_time("qwen", model("chat", urgency=4)))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "chat") << wakes_at(20)


def test_a_resident_in_use_serves_on_during_its_turn(driver: SchedulerDriver) -> None:
    """Waiting for another model does not slow down the one that has its turn."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    driver.at(30) >> arrives(3, "qwen") << grants(3)


def test_a_turn_ends_early_when_the_model_falls_idle(driver: SchedulerDriver) -> None:
    """Unused time does not count as a turn."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    driver.at(20) >> leaves(1) << stops("qwen")


def test_the_turn_of_a_model_begins_when_it_is_ready(driver: SchedulerDriver) -> None:
    """Loading is not part of the turn that it buys."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver.at(5) >> arrives(2, "llama") << nothing

    driver.at(10) >> ready("qwen") << grants(1) << wakes_at(50)


def test_claims_rotate(driver: SchedulerDriver) -> None:
    """A model that was evicted queues up behind those that waited while it ran."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(11) >> arrives(3, "gemma") << nothing
    driver.at(50) >> clock << nothing
    driver >> arrives(4, "qwen") << nothing
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver.at(60) >> ready("llama") << grants(2) << wakes_at(100)

    driver >> leaves(2) << stops("llama")
    driver >> exited("llama") << starts("gemma")
    driver.at(70) >> ready("gemma") << grants(3) << wakes_at(150)
    driver >> leaves(3) << stops("gemma")
    driver >> exited("gemma") << starts("qwen")


def test_an_old_request_of_the_model_that_just_left(driver: SchedulerDriver) -> None:
    """Requests older than the swap do not turn it around: their claim begins when their model's turn ended."""
    driver.with_ready("qwen", *range(8))
    driver.at(11) >> arrives(20, "llama") << wakes_at(51)
    driver.at(12) >> arrives(21, "qwen") << nothing
    driver.at(51) >> clock << nothing
    for ticket in range(7):
        driver >> leaves(ticket) << nothing
    driver >> leaves(7) << stops("qwen")
    driver >> exited("qwen") << starts("llama")

    driver.at(61) >> ready("llama") << grants(20) << wakes_at(141)


def test_who_overtook_has_no_turn_of_its_own(new_driver: NewDriver) -> None:
    """A small model that slipped in before an older claim must go when that claim is due."""
    driver = new_driver(with_budget(model("qwen", gib=12), model("big", gib=20), model("small", gib=8)))
    driver.with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "big") << wakes_at(51)
    driver.at(35) >> arrives(3, "small") << starts("small")
    driver.at(45) >> ready("small") << grants(3) << wakes_at(51)

    driver.at(51) >> clock << nothing
    assert driver.phase("qwen") is driver.phase("small") is Phase.DRAINING


@pytest.mark.parametrize(("gib", "then"), [(21, wakes_at(100)), (24, nothing)])
def test_small_loads_cannot_keep_a_due_claim_waiting(
    new_driver: NewDriver, gib: float, then: Expected | Nothing
) -> None:
    """While a claim that is due waits for the loader, no younger load may begin in its way."""
    small = [model(name, gib=2, ttl_s=1) for name in ("s1", "s2")]
    driver = new_driver(with_budget(model("qwen", gib=12), model("big", gib=gib), *small))
    driver.with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "big") << wakes_at(51)
    driver.at(50) >> arrives(3, "s1") << starts("s1")
    driver.at(55) >> arrives(4, "s2") << nothing
    assert driver.why("big") == driver.why("s2") == "waiting for s1 to finish loading (its usual time is not known yet)"

    driver.at(60) >> ready("s1") << grants(3) << then
    assert driver.phase("qwen") is Phase.DRAINING


def test_three_models_in_use_get_one_turn_each(driver: SchedulerDriver) -> None:
    """Between a claim and its load, every other contender has at most one turn."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver >> arrives(3, "gemma") << nothing
    driver.at(50) >> clock << nothing
    driver >> leaves(1) << stops("qwen")
    driver >> arrives(4, "qwen") << nothing
    driver >> exited("qwen") << starts("llama")
    driver.at(60) >> ready("llama") << grants(2) << wakes_at(100)
    driver.at(100) >> clock << nothing

    driver >> leaves(2) << stops("llama")
    driver >> exited("llama") << starts("gemma")
