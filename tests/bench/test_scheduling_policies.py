"""Other programs' policies and the simulator agree with independently computed figures."""

from __future__ import annotations

import pytest
from bench.scheduling.policies import RULES, Peer
from bench.scheduling.workloads import SEEDS, WORKLOADS

from hotseat.simulation.results import figures
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import play


@pytest.mark.parametrize(
    ("workload", "rule", "loads"),
    [
        ("a", "fifo", 120.0),
        ("a", "collate", 120.0),
        ("b2", "fifo", 163.4),
        ("b2", "collate", 32.2),
        ("d", "fifo", 191.4),
        ("d", "collate", 183.6),
        ("d", "ollama", 172.4),
        ("f2", "collate", 169.0),
        ("f2", "ollama", 143.0),
    ],
)
def test_a_rule_loads_as_often_as_an_independent_simulator_found(workload: str, rule: str, loads: float) -> None:
    """The published means over five seeds were found with another simulator and another implementation."""
    traces = [WORKLOADS[workload].trace(seed) for seed in SEEDS]
    found = [figures(play(trace, Peer(catalog_of(trace), RULES[rule]))) for trace in traces]

    assert sum(each.loads for each in found) / len(found) == pytest.approx(loads)
    assert sum(each.unserved for each in found) == 0
