"""The exact optimum is right where it can be computed by hand, and no policy beats it."""

from __future__ import annotations

from random import Random

import pytest
from bench.scheduling.optimum import Instance, compared, instance, least_total_latency

from hotseat.simulation.trace import Model

A, B = Model("A", 5.0, 1.0, 1, 20.0), Model("B", 10.0, 1.0, 1, 20.0)


def test_requests_for_one_model_are_served_together() -> None:
    """A, B, A, B, all at once: both of A (6, 7), then both of B (19, 20)."""
    both = Instance((A, B), (1.0, 1.0), ((0.0, 0.0), (0.0, 0.0)))

    assert least_total_latency(both) == pytest.approx(6 + 7 + 19 + 20)


def test_the_optimum_waits_where_waiting_is_cheaper() -> None:
    """With A loaded, it pays to wait 2 s for the next A before B is loaded."""
    soon = Instance((A, B), (1.0, 1.0), ((0.0, 8.0), (6.5,)))
    served_in_time = (6 - 0) + (9 - 8) + (9 + 1 + 10 + 1 - 6.5)

    assert least_total_latency(soon) == pytest.approx(served_in_time)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_beats_the_optimum(seed: int) -> None:
    """Every policy's total latency is at least the optimum's."""
    assert min(compared(instance(Random(seed)))) >= 1 - 1e-9
