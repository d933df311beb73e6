"""How hard the searches search: `HYPOTHESIS_PROFILE=deep` searches for minutes where `quick` takes seconds.

And what coverage follows: not the programs that tests start but for the guard in its own tests, and not tests marked
`uncounted`, because it makes Python four times as slow and other tests go the same ways.
"""

from __future__ import annotations

import os
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who began last would be waited for alone."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    counting = Coverage.current() if item.get_closest_marker("uncounted") else None
    if counting is not None:
        counting.stop()
    try:
        return (yield)
    finally:
        if counting is not None:
            counting.start()
            leave_programs_alone()
