"""Three hosts, three NATS servers, and everything goes wrong; `just chaos --fleet` plays it with more, for longer."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.support.depth import by_depth
from tests.support.llama import REPOSITORY

SEED = "2580"
"""It kills a host and the leader of NATS and cuts a host off from all before anything else."""
MINUTES = by_depth("0.9", deep="2")
FIRST = ("kill -9 of a host", "kill -9 of NATS' leader", "a host is cut off from all")


@pytest.mark.llama
@pytest.mark.minutes
@pytest.mark.timeout(420)
def test_a_fleet_in_chaos_violates_nothing() -> None:
    """Nothing is executed twice on any hosts, what breaks does so visibly, and hosts say no more when asked more."""
    argv = [sys.executable, "-m", "bench.chaos", "--fleet", "3", "--seed", SEED, "--minutes", MINUTES]
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    print(ended.stdout, ended.stderr)  # pytest shows it when the test fails

    assert ended.returncode == 0
    assert "violations: 0" in ended.stdout
    assert all(re.search(rf"^{fault} +[1-9]", ended.stdout, re.MULTILINE) for fault in FIRST)
