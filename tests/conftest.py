"""How hard the searches search: `HYPOTHESIS_PROFILE=deep` searches for minutes where `quick` takes seconds.

And what coverage counts (`just coverage`): not searches by Hypothesis and tests marked `uncounted`, since it makes
Python up to six times as slow; of the programs that tests start, only the guard, in its own tests.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings
from tests.support.counting import Counting, leave_programs_alone

settings.register_profile("quick", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=2_000, stateful_step_count=80, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

leave_programs_alone()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and every program that a test starts would ignore Ctrl-C too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

UNCOUNTED = ("uncounted", "hypothesis")
"""Markers; Hypothesis sets its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who began last would be waited for alone."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


def pytest_sessionfinish() -> None:
    """A worker that has not ended ten seconds later is killed, and coverage saves its data only at its end."""
    COUNTING.save()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    COUNTING.switch(is_counted(item))


COUNTING = Counting()


def is_counted(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(marker) for marker in UNCOUNTED)
