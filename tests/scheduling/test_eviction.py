"""Which models are evicted: the cheapest set that frees enough memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, with_budget
from tests.support.scheduler_driver import arrives, clock, exited, leaves, nothing, ready, starts, stops, wakes_at

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def used(driver: SchedulerDriver, name: str, ticket: int, *, load_s: float, for_s: float = 1) -> None:
    """Load a model, use it for a while and let it be."""
    driver >> arrives(ticket, name)
    driver._unasserted.clear()
    driver.after(load_s) >> ready(name)
    driver._unasserted.clear()
    driver.after(for_s) >> leaves(ticket)
    driver._unasserted.clear()


def test_the_slow_loader_is_kept(new_driver: NewDriver) -> None:
    """Of two that were unused equally long, the one that is quickly loaded again goes."""
    driver = new_driver(with_budget(model("slow", gib=10), model("quick", gib=10), model("new", gib=10)))
    used(driver, "slow", 1, load_s=60)
    used(driver, "quick", 2, load_s=2)

    driver.at(500) >> arrives(3, "new") << stops("quick")


def test_the_one_that_is_enough_alone(new_driver: NewDriver) -> None:
    """Two small ones are not stopped where one big one is cheaper than both."""
    driver = new_driver(with_budget(model("a", gib=8), model("b", gib=8), model("big", gib=8), model("new", gib=8)))
    for ticket, name in enumerate(("a", "b", "big")):
        used(driver, name, ticket, load_s=10)

    driver.at(500) >> arrives(3, "new") << stops("a")


def test_whoever_is_not_needed_is_let_off(new_driver: NewDriver) -> None:
    """The cheapest is taken first, but stays if the next one is enough by itself."""
    driver = new_driver(with_budget(model("crumb", gib=2), model("loaf", gib=20), model("new", gib=20)))
    used(driver, "crumb", 1, load_s=1)
    used(driver, "loaf", 2, load_s=30)

    driver.at(500) >> arrives(3, "new") << stops("loaf")


def test_a_swap_is_reported_when_it_is_complete(new_driver: NewDriver) -> None:
    """The client and its wait, what was evicted and why, the load as expected and as measured."""
    driver = new_driver(with_budget(model("old", gib=20), model("new", gib=20)))
    used(driver, "old", 1, load_s=10, for_s=5)
    driver.at(40) >> arrives(2, "new", "alice") << stops("old")
    driver.at(41) >> exited("old") << starts("new")
    driver.at(49) >> ready("new")
    driver._unasserted.clear()
    (swap,) = driver.swaps
    (went,) = swap.evicted

    assert (swap.model, swap.client, swap.waited_s) == ("new", "alice", 9)
    assert (swap.predicted_s, swap.measured_s) == (None, 8)
    assert (went.model, went.age_s, went.load_s, went.served) == ("old", 30, 10, 1)
    assert went.reason == "idle for 25.0 s, loads in 10.0 s"
    assert not went.is_early


def test_a_model_that_goes_too_soon_is_noticed(new_driver: NewDriver) -> None:
    """It was there for a shorter time than it took to load: that is thrash."""
    driver = new_driver(with_budget(model("old", gib=20), model("new", gib=20)))
    used(driver, "old", 1, load_s=10)
    driver.at(12) >> arrives(2, "new") << stops("old")
    driver.at(13) >> exited("old") << starts("new")
    driver.at(14) >> leaves(2) << nothing
    driver.at(23) >> ready("new") << nothing

    assert driver.swaps[0].evicted[0].is_early
    assert driver.swaps[0].client is None


def test_a_busy_one_goes_when_its_turn_is_over(new_driver: NewDriver) -> None:
    """The record says that too."""
    driver = new_driver(with_budget(model("old", gib=20), model("new", gib=20)))
    driver.with_ready("old", 1)
    driver >> arrives(2, "new") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver.at(51) >> leaves(1) << stops("old")
    driver.at(52) >> exited("old") << starts("new")
    driver.at(60) >> ready("new")
    driver._unasserted.clear()

    assert driver.swaps[0].evicted[0].reason == "its turn was over (1 request running)"


@pytest.mark.parametrize("policy", [{"patience": 0}, {"max_wait_s": 60}, {"max_wait_s": 20}])
def test_the_slow_loader_is_kept_whatever_the_policy(new_driver: NewDriver, policy: dict[str, float]) -> None:
    """A short turn does not make all losses equal."""
    models = model("a slow one", gib=10), model("quick", gib=10), model("new", gib=10)
    driver = new_driver(with_budget(*models, **policy))
    used(driver, "a slow one", 1, load_s=60)
    used(driver, "quick", 2, load_s=2)

    driver.at(500) >> arrives(3, "new") << stops("quick")
