"""The bound on waiting: one function for `why`, for the simulator and for the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import arrives, grants, leaves, nothing, wakes_at

from hotseat.catalog.catalog import Policy
from hotseat.scheduling.bound import Competitor, bound_s

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

A, B = Competitor(10, 1, 5), Competitor(20, 1, 3)
SWAPS_S = (10 + 1 + 5) + (20 + 1 + 3)


def test_every_swap_and_two_turns_of_each_competitor() -> None:
    """A turn is patience times the load of the one and the slowest load of all."""
    assert bound_s(A, [B], Policy(patience=2)) == SWAPS_S + 2 * 2 * (20 + 20)


def test_no_patience_leaves_one_more_load_for_older_requests() -> None:
    assert bound_s(A, [B], Policy(patience=0)) == SWAPS_S + 20


def test_the_least_urgent_model_waits_longest_and_so_does_whoever_is_behind_it() -> None:
    """Turns are longer by the urgency of the model that stays over that of the model that waits."""
    urgent = B._replace(urgency=4)

    assert bound_s(A, [urgent], Policy(patience=2)) == SWAPS_S + 2 * 2 * (20 + 20) * 4
    assert bound_s(urgent, [A], Policy(patience=2)) == SWAPS_S + 2 * 2 * (10 + 20)


@pytest.mark.parametrize(("max_wait_s", "bound"), [(1000, SWAPS_S + 160), (60, 60), (10, SWAPS_S)])
def test_max_wait_limits_the_turns(max_wait_s: float, bound: float) -> None:
    """It cannot shorten loads, stops and requests."""
    assert bound_s(A, [B], Policy(patience=2, max_wait_s=max_wait_s)) == bound


def test_why_counts_urgency_and_max_wait(new_driver: NewDriver) -> None:
    """What is promised to a waiting request is the bound with the policy in force."""
    driver = new_driver(one_at_a_time(model("qwen", urgency=4), "llama", max_wait_s=50))
    driver.scheduler.model_stats.adopt({"qwen": {"stop_s": 1.0}, "llama": {"load_s": 10.0}})
    driver.with_ready("qwen", 1)
    driver.at(15) >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "llama", "another") << wakes_at(15 + 50 - 2 * (10 + 1) - 5)

    (first,) = driver.scheduler.view(driver.now).queue
    assert first.not_later_than == 15 + 50
