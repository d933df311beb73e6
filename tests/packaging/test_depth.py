"""What has a larger form for `just deep` must be selected by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HAS_LARGER_FORM = re.compile(r"\b(IS_DEEP|by_depth|run_state_machine_as_test)\b")
"""The last one takes its size from Hypothesis' profile, without Hypothesis' own marker."""
SELECTED = re.compile(r"pytest\.mark\.(longer|deep)\b|@given\b")
FILES = [
    path for path in TESTS.rglob("test_*.py") if path != Path(__file__) and HAS_LARGER_FORM.search(path.read_text())
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test_with_a_larger_form_is_marked(path: Path) -> None:
    """Otherwise its larger form never runs."""
    assert SELECTED.search(path.read_text())
