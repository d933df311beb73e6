"""Twenty seconds of everything going wrong at once, three in `just deep`, and any number of them in `just chaos`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.depth import by_depth
from tests.support.llama import REPOSITORY

MINUTES = by_depth("0.35", deep="3")


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
