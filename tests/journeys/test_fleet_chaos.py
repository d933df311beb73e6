"""Three hosts, three NATS servers, and everything goes wrong; `just chaos --fleet` plays it with more, for longer."""

from __future__ import annotations

import re

import pytest
from tests.support.chaos_run import clean_report
from tests.support.depth import by_depth

SEED = "2580"
"""It kills a host and the leader of NATS and cuts a host off from all before anything else."""
MINUTES = by_depth("0.9", deep="2")
FIRST = ("kill -9 of a host", "kill -9 of NATS' leader", "a host is cut off from all")


@pytest.mark.llama
@pytest.mark.deep
@pytest.mark.timeout(420)
def test_a_fleet_in_chaos_violates_nothing() -> None:
    """Nothing is executed twice on any hosts, what breaks does so visibly, and hosts say no more when asked more."""
    report = clean_report("--fleet", "3", "--seed", SEED, "--minutes", MINUTES)

    assert all(re.search(rf"^{fault} +[1-9]", report, re.MULTILINE) for fault in FIRST)
