"""The simulator is accurate: the real proxy with real processes gives similar results for the same trace."""

from __future__ import annotations

import pytest
from bench.scheduling.real import compare, faster
from bench.scheduling.workloads import two_clients


@pytest.mark.deep
def test_real_processes_do_what_was_simulated() -> None:
    """Two clients on a model each: as many loads, and about the same latency."""
    found = compare("a", faster(two_clients(1, each=4)))

    assert found.loads == found.loads_simulated
    assert found.mean_off < 0.25
