"""How hard the searches search: `HYPOTHESIS_PROFILE=deep` searches for minutes where `quick` takes seconds.

And which tests coverage counts: those of the packages that have a guaranteed figure, except searches by Hypothesis and
tests marked `uncounted`. It makes Python up to six times as slow, so it looks away from what other tests execute too,
and from the programs that tests start, except for the guard in its own tests.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from coverage import Coverage
from hypothesis import settings
from tests.support.counting import leave_programs_alone

import hotseat

settings.register_profile("quick", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=2_000, stateful_step_count=80, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

leave_programs_alone()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and every program that a test starts would ignore Ctrl-C too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
SOURCES = Path(hotseat.__file__).parent
COUNTED = {
    *(
        "catalog",
        "estimates",
        "fleet",
        "hardware",
        "model_servers",
        "ollama",
        "relay",
        "scheduling",
        "simulation",
        "tracing",
    ),
}
"""Folders of tests; scripts/check_coverage.sh has the figures."""
UNCOUNTED = ("uncounted", "hypothesis")
"""Markers; Hypothesis sets its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who began last would be waited for alone."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


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


COUNTING = Counting()


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Coverage looks away while pytest collects, so the modules whose lines count are imported before that."""
    if Coverage.current() is not None:
        for package in sorted(COUNTED):
            for module in walk_packages([str(SOURCES / package)], f"hotseat.{package}."):
                import_module(module.name)
        COUNTING.switch(False)


def is_counted(item: pytest.Item) -> bool:
    is_left_out = any(item.get_closest_marker(marker) for marker in UNCOUNTED)
    return item.path.relative_to(TESTS).parts[0] in COUNTED and not is_left_out
