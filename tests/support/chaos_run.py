"""`just chaos` as a test runs it."""

from __future__ import annotations

import subprocess
import sys

from tests.support.llama import REPOSITORY

WITHIN_S = 400


def clean_report(*options: str) -> str:
    """What a run with these options reports; fails if it violates anything."""
    argv = [sys.executable, "-m", "bench.chaos", *options]
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=WITHIN_S)
    print(ended.stdout, ended.stderr)  # pytest shows it when the test fails
    assert ended.returncode == 0
    assert "violations: 0" in ended.stdout
    return ended.stdout
