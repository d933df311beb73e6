"""How hard the searches search: `HYPOTHESIS_PROFILE=deep` searches for minutes where `quick` takes seconds.

And which tests coverage counts: those of the packages that have a guaranteed figure, except tests marked `uncounted`.
It makes Python up to four times as slow, so it looks away from what other tests execute too, and from the programs that
tests start, except for the guard in its own tests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from coverage import Coverage
from hypothesis import settings
from tests.support.counting import leave_programs_alone

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile("quick", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=2_000, stateful_step_count=80, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

leave_programs_alone()

TESTS = Path(__file__).parent
COUNTED = {"catalog", "estimates", "fleet", "hardware", "model_servers", "relay", "scheduling", "simulation"}
"""Folders of tests; scripts/check_coverage.sh has the figures."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who began last would be waited for alone."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    counting = None if is_counted(item) else Coverage.current()
    if counting is not None:
        counting.stop()
    try:
        return (yield)
    finally:
        if counting is not None:
            counting.start()
            leave_programs_alone()


def is_counted(item: pytest.Item) -> bool:
    return item.path.relative_to(TESTS).parts[0] in COUNTED and item.get_closest_marker("uncounted") is None
