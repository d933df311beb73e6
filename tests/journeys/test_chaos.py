"""Twelve seconds of everything going wrong at once, and a restart under traffic; more of both in `just deep`."""

from __future__ import annotations

import pytest
from tests.support.chaos_run import clean_report
from tests.support.depth import by_depth

MINUTES = by_depth("0.2", deep="3")
RESTARTS = by_depth("1", deep="15")


@pytest.mark.llama
@pytest.mark.longer
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_minutes_of_chaos_violate_nothing() -> None:
    """Every answer is whole and right, an honest error, or visibly broken; nothing is done twice or left behind."""
    clean_report("--seed", "2026", "--minutes", MINUTES)


@pytest.mark.llama
@pytest.mark.longer
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_restarts_under_traffic_violate_nothing() -> None:
    """Streams, uploads, websockets and requests that wait go on, no connection is refused and no server is replaced."""
    assert f"restarts: {RESTARTS}\n" in clean_report("--seed", "2026", "--restarts", RESTARTS)
