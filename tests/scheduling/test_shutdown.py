"""Shutdown of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, with_budget
from tests.support.playbook import (
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
    from tests.support.playbook import Playbook, Stage


def test_idle_models_are_stopped(stage: Stage) -> None:
    """Everything that runs unused is stopped at once."""
    yard = stage(with_budget(model("qwen", gib=8), model("llama", gib=8)))
    yard.with_ready("qwen").with_ready("llama")

    yard >> shutdown() << stops("qwen") << stops("llama", cause=Cause.SHUTDOWN)
    assert yard.reason == "hotseat is shutting down"


def test_requests_in_flight_finish(yard: Playbook) -> None:
    """A model in use stops after its last request."""
    yard.with_ready("qwen", 1)
    yard >> shutdown() << nothing

    yard.after(500) >> clock << nothing
    yard >> leaves(1) << stops("qwen")


def test_force_cuts_what_is_in_flight(yard: Playbook) -> None:
    """The second word is the last: leases are cut."""
    yard.with_ready("qwen", 1)
    yard >> shutdown() << nothing

    yard >> shutdown(force=True) << cuts(1)
    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << nothing


def test_force_at_once(yard: Playbook) -> None:
    """A forced shutdown cuts without a drain first."""
    yard.with_ready("qwen", 1)

    yard >> shutdown(force=True) << cuts(1)


def test_those_who_wait_are_sent_away(yard: Playbook) -> None:
    """Waiting requests are refused; clients may retry."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing

    yard >> shutdown() << refuses(1, ShuttingDown) << refuses(2, ShuttingDown)
    assert yard.error.retry_after == 5
    yard << stops("qwen")
    yard >> failed("qwen") << nothing


@pytest.mark.parametrize("comes", [arrives(2, "qwen"), load(2, "qwen")])
def test_newcomers_are_sent_away(yard: Playbook, comes: object) -> None:
    """No request is accepted, not even for a model that still runs."""
    yard.with_ready("qwen", 1)
    yard >> shutdown() << nothing

    yard >> comes << refuses(2, ShuttingDown)  # type: ignore[operator]


def test_a_load_becomes_ready_after_the_shutdown(yard: Playbook) -> None:
    """It was told to stop, and it stops."""
    yard >> load(1, "qwen") << starts("qwen")
    yard >> shutdown() << refuses(1, ShuttingDown) << stops("qwen")

    yard >> ready("qwen") << nothing
    assert yard.phase("qwen") is Phase.UNLOADING


def test_a_model_in_backoff_does_not_come_back(yard: Playbook) -> None:
    """The end of a backoff starts nothing during a shutdown."""
    yard.with_backoff("qwen")
    yard >> shutdown() << nothing

    yard.at(2) >> clock << nothing
