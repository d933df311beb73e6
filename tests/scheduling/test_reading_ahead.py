"""While memory is freed for a model, its files are read into the page cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import (
    arrives,
    changed,
    clock,
    confirms,
    exited,
    leaves,
    nothing,
    refuses,
    shutdown,
    starts,
    stops,
    unload,
)

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

RIG = one_at_a_time("qwen", "llama", patience=0)


@pytest.fixture
def draining(new_driver: NewDriver) -> SchedulerDriver:
    """qwen is used by ticket 1 and drains, because ticket 2 wants llama."""
    driver = new_driver(RIG).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing
    return driver


def test_files_are_read_while_the_old_model_drains_and_stops(draining: SchedulerDriver) -> None:
    """Once, from the decision to the start, however many want the model meanwhile."""
    assert draining.reading == {"llama": "v1"}
    draining >> arrives(3, "llama") << nothing
    draining >> leaves(1) << stops("qwen")
    assert draining.reading == {"llama": "v1"}
    draining >> exited("qwen") << starts("llama")

    assert draining.reading == {}


def test_nothing_is_read_ahead_while_the_turn_lasts(driver: SchedulerDriver) -> None:
    """Whose turn it is may change until it ends."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama")
    driver._unasserted.clear()
    assert driver.reading == {}
    driver.at(50) >> clock << nothing

    assert driver.reading == {"llama": "v1"}


def test_files_are_read_also_where_an_operator_freed_the_memory(new_driver: NewDriver) -> None:
    """Memory is freed for whatever reason a model leaves."""
    driver = new_driver(one_at_a_time("qwen", "llama")).with_ready("qwen", 1)
    driver >> unload(7, "qwen")
    driver._unasserted.clear()
    driver >> arrives(2, "llama") << nothing
    assert driver.reading == {"llama": "v1"}
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << confirms(7) << starts("llama")


def test_reading_ends_when_nobody_wants_the_model_any_more(draining: SchedulerDriver) -> None:
    """What was cleared for it stays cleared, but its files are left alone."""
    draining >> leaves(2) << nothing
    assert draining.reading == {}
    draining >> leaves(1) << stops("qwen")

    draining >> exited("qwen") << nothing


def test_reading_ahead_ends_at_shutdown(draining: SchedulerDriver) -> None:
    """A shutdown refuses waiting requests."""
    draining >> shutdown() << refuses(2)

    assert draining.reading == {}


def test_other_files_are_read_instead(draining: SchedulerDriver) -> None:
    """A reload may name others; the old ones are left first."""
    assert draining.reading == {"llama": "v1"}
    draining >> changed(one_at_a_time("qwen", model("llama", version=2), patience=0)) << nothing

    assert draining.reading == {"llama": "v2"}


def test_nothing_is_read_ahead_where_it_is_switched_off(new_driver: NewDriver) -> None:
    """The servers may read past the page cache."""
    driver = new_driver(one_at_a_time("qwen", "llama", patience=0, reads_ahead=False)).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << nothing

    assert driver.reading == {}


def test_a_model_that_fits_is_started_and_not_read_ahead(new_driver: NewDriver) -> None:
    """There is nothing to wait for."""
    driver = new_driver(with_budget(model("qwen", gib=10), model("llama", gib=10))).with_ready("qwen", 1)
    driver >> arrives(2, "llama") << starts("llama")

    assert driver.reading == {}
