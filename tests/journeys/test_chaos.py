"""Three minutes of everything going wrong at once; `just chaos` plays as many as one likes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.llama import REPOSITORY


@pytest.mark.llama
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_three_minutes_of_chaos_violate_nothing() -> None:
    """Every answer is whole and right, an honest error, or visibly broken; nothing is done twice or left behind."""
    argv = [sys.executable, "-m", "bench.chaos", "--seed", "2026", "--minutes", "3"]
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    print(ended.stdout, ended.stderr)  # pytest shows it when the test fails

    assert ended.returncode == 0
    assert "violations: 0" in ended.stdout
