"""Twenty seconds of everything going wrong at once, and restarts under traffic; more of both in `just deep`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.depth import by_depth
from tests.support.llama import REPOSITORY

MINUTES = by_depth("0.35", deep="3")
RESTARTS = by_depth("2", deep="15")


@pytest.mark.llama
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_minutes_of_chaos_violate_nothing() -> None:
    """Every answer is whole and right, an honest error, or visibly broken; nothing is done twice or left behind."""
    argv = [sys.executable, "-m", "bench.chaos", "--seed", "2026", "--minutes", MINUTES]
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    print(ended.stdout, ended.stderr)  # pytest shows it when the test fails

    assert ended.returncode == 0
    assert "violations: 0" in ended.stdout


@pytest.mark.llama
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_restarts_under_traffic_violate_nothing() -> None:
    """Streams, uploads, websockets and requests that wait go on, no connection is refused and no server is replaced."""
    argv = [sys.executable, "-m", "bench.chaos", "--seed", "2026", "--restarts", RESTARTS]
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    print(ended.stdout, ended.stderr)  # pytest shows it when the test fails

    assert ended.returncode == 0
    assert f"restarts: {RESTARTS}\n" in ended.stdout
    assert "violations: 0" in ended.stdout
