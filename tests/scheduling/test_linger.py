"""An unused model keeps its place exactly when its past says that its next request is about to come."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, with_budget
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

from hotseat.scheduling.loss import Pressure, linger_s, next_use_s
from hotseat.scheduling.model_stats import ModelStats

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

ONE_WAITS = Pressure(waiting=1, loads_s=10)


def stats(*reuse_gaps: float, service_s: float = 1.0) -> ModelStats:
    known = ModelStats(service_s=service_s)
    known.reuse_gaps.extend(reuse_gaps)
    return known


def test_no_evidence_no_linger() -> None:
    """One return says nothing."""
    assert linger_s(stats(0.5), 10, 0, ONE_WAITS, 60) == 0


def test_a_client_that_always_returns_is_waited_for() -> None:
    """A little longer than it usually takes, because clients are not exact."""
    assert 0.5 < linger_s(stats(0.5, 0.5), 10, 0, ONE_WAITS, 60) < 0.7


def test_what_has_passed_already_counts() -> None:
    """After two of three seconds one is left."""
    assert linger_s(stats(3, 3), 10, 2, ONE_WAITS, 60) == pytest.approx(1.15)


def test_a_gap_that_is_over_is_not_waited_for() -> None:
    """A client that did not return at its usual time is not expected any more."""
    assert linger_s(stats(0.5, 0.5), 10, 1, ONE_WAITS, 60) == 0


def test_many_who_wait_outweigh_one_who_may_return() -> None:
    """Their loss is certain, and there are more of them."""
    assert linger_s(stats(5, 5), 10, 0, Pressure(waiting=6, loads_s=10), 60) == 0


def test_a_return_after_a_visit_elsewhere_is_none() -> None:
    """Waiting for it would not have brought it about."""
    assert linger_s(stats(inf, inf, inf), 10, 0, ONE_WAITS, 60) == 0


def test_lingering_ends_with_the_turn() -> None:
    """Returns beyond the limit do not count, and neither does slack."""
    assert linger_s(stats(5, 5), 30, 0, ONE_WAITS, 4) == 0
    assert linger_s(stats(5, 5), 30, 0, ONE_WAITS, 5.1) == pytest.approx(5.1)


def test_the_next_use() -> None:
    """What is left of longer gaps, and as long again; without gaps only the guess."""
    assert next_use_s([], 40) == 40
    assert next_use_s([10, 50], 40) == (10 + 40) / 2
    assert next_use_s([], 0) == 1


def test_a_closed_loop_keeps_its_model_between_two_requests(driver: SchedulerDriver) -> None:
    """After two returns the model is kept for the third, and nothing is swapped."""
    driver.with_ready("qwen", 1)
    for start, ticket in ((20, 1), (21, 2), (22, 3)):
        driver.at(start) >> leaves(ticket) << nothing
        driver.at(start + 0.5) >> arrives(ticket + 1, "qwen") << grants(ticket + 1)
    driver >> arrives(9, "llama") << wakes_at(pytest.approx(88.8, abs=0.1))  # type: ignore[arg-type]
    driver.at(23) >> leaves(4) << wakes_at(pytest.approx(23.6))  # type: ignore[arg-type]
    assert driver.why("llama") == "qwen is idle, but its next request is expected soon: protected for 0.6 s more"

    driver.at(23.5) >> arrives(5, "qwen") << grants(5)


def test_who_does_not_come_back_loses_his_model(driver: SchedulerDriver) -> None:
    """Waiting ends when it no longer pays."""
    driver.with_ready("qwen", 1)
    for start, ticket in ((20, 1), (21, 2), (22, 3)):
        driver.at(start) >> leaves(ticket) << nothing
        driver.at(start + 0.5) >> arrives(ticket + 1, "qwen") << grants(ticket + 1)
    driver >> arrives(9, "llama") << wakes_at(pytest.approx(88.8, abs=0.1))  # type: ignore[arg-type]
    driver.at(23) >> leaves(4) << wakes_at(pytest.approx(23.6))  # type: ignore[arg-type]

    driver.at(23.6) >> clock << stops("qwen")


def test_one_client_going_to_and_fro_is_never_waited_for(driver: SchedulerDriver) -> None:
    """A→B→A: A's gaps are long enough, but its client was busy elsewhere."""
    driver.with_ready("qwen", 1)
    driver.at(11) >> leaves(1) << nothing
    running, wanted = "qwen", "llama"
    for ticket in range(2, 8):
        driver.after(0.5) >> arrives(ticket, wanted) << stops(running)
        driver.after(1) >> exited(running) << starts(wanted)
        driver.after(10) >> ready(wanted) << grants(ticket)
        driver.after(1) >> leaves(ticket) << nothing
        running, wanted = wanted, running


def test_two_unused_models_are_both_worth_waiting_for(new_driver: NewDriver) -> None:
    """The next check is when the first of them is no longer worth it."""
    driver = new_driver(with_budget(model("a", gib=12), model("b", gib=12), model("new", gib=24)))
    driver.scheduler.model_stats.adopt({"a": {"reuse_gaps": [15, 15]}, "b": {"reuse_gaps": [7, 7]}})
    driver.with_ready("a").with_ready("b")

    driver >> arrives(1, "new") << wakes_at(pytest.approx(25.5, abs=0.1))  # type: ignore[arg-type]
