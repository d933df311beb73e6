"""How hard the searches search: `HYPOTHESIS_PROFILE=deep` searches for minutes where `quick` takes seconds.

And what coverage counts (`just coverage`): not searches by Hypothesis and tests marked `uncounted`, since it makes
Python up to six times as slow; of the programs that tests start, only the guard, in its own tests.
"""

from __future__ import annotations

import os
import signal

import pytest
from coverage import Coverage
from hypothesis import settings
from tests.support.counting import leave_programs_alone

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


class Counting:
    """Coverage of this process. Starting it takes milliseconds, so it is not stopped and started at each test."""

    def __init__(self) -> None:
        self._coverage = Coverage.current()
        self._is_on = True

    def switch(self, is_on: bool) -> None:
        if self._coverage is None or is_on is self._is_on:
            return
        self._is_on = is_on
        if is_on:
            self._coverage.start()
            leave_programs_alone()
        else:
            self._coverage.stop()

    def save(self) -> None:
        """Also when it is switched off: then `Coverage.current()` does not know it any more."""
        if self._coverage:
            self.switch(False)
            self._coverage.save()


COUNTING = Counting()


def is_counted(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(marker) for marker in UNCOUNTED)
