"""Shutdown of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, with_budget
from tests.support.scheduler_driver import (
    arrives,
    clock,
    cuts,
    exited,
    failed,
    leaves,
    load,
    nothing,
    ready,
    refuses,
    shutdown,
    starts,
    stops,
)

from hotseat.errors import ShuttingDown
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_idle_models_are_stopped(new_driver: NewDriver) -> None:
    """Everything that runs unused is stopped at once."""
    driver = new_driver(with_budget(model("qwen", gib=8), model("llama", gib=8)))
    driver.with_ready("qwen").with_ready("llama")

    driver >> shutdown() << stops("qwen") << stops("llama", cause=Cause.SHUTDOWN)
    assert driver.reason == "hotseat is shutting down"


def test_requests_in_flight_finish(driver: SchedulerDriver) -> None:
    """A model in use stops after its last request."""
    driver.with_ready("qwen", 1)
    driver >> shutdown() << nothing

    driver.after(500) >> clock << nothing
    driver >> leaves(1) << stops("qwen")


def test_force_cuts_what_is_in_flight(driver: SchedulerDriver) -> None:
    """The second word is the last: leases are cut."""
    driver.with_ready("qwen", 1)
    driver >> shutdown() << nothing

    driver >> shutdown(force=True) << cuts(1)
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << nothing


def test_force_at_once(driver: SchedulerDriver) -> None:
    """A forced shutdown cuts without a drain first."""
    driver.with_ready("qwen", 1)

    driver >> shutdown(force=True) << cuts(1)


def test_those_who_wait_are_sent_away(driver: SchedulerDriver) -> None:
    """Waiting requests are refused; clients may retry."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing

    driver >> shutdown() << refuses(1, ShuttingDown) << refuses(2, ShuttingDown)
    assert driver.error.retry_after == 5
    driver << stops("qwen")
    driver >> failed("qwen") << nothing


@pytest.mark.parametrize("comes", [arrives(2, "qwen"), load(2, "qwen")])
def test_newcomers_are_sent_away(driver: SchedulerDriver, comes: object) -> None:
    """No request is accepted, not even for a model that still runs."""
    driver.with_ready("qwen", 1)
    driver >> shutdown() << nothing

    driver >> comes << refuses(2, ShuttingDown)  # type: ignore[operator]


def test_a_load_becomes_ready_after_the_shutdown(driver: SchedulerDriver) -> None:
    """It was told to stop, and it stops."""
    driver >> load(1, "qwen") << starts("qwen")
    driver >> shutdown() << refuses(1, ShuttingDown) << stops("qwen")

    driver >> ready("qwen") << nothing
    assert driver.phase("qwen") is Phase.UNLOADING


def test_a_model_in_backoff_does_not_come_back(driver: SchedulerDriver) -> None:
    """The end of a backoff starts nothing during a shutdown."""
    driver.with_backoff("qwen")
    driver >> shutdown() << nothing

    driver.at(2) >> clock << nothing
