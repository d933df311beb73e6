"""The figures of a run, each small enough to check by hand."""

from __future__ import annotations

import pytest

from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.simulation.results import figures, jain, quantile, stalled_s
from hotseat.simulation.run_log import Request, Run, Stay

A = ModelName("A")


def request(client: str, arrived: float, started: float | None, finished: float | None, service: float = 1) -> Request:
    return Request(TicketId(0), client, A, service, arrived, started, finished)


RUN = Run(
    (
        request("u", 0, 10, 12, 2),
        request("u", 12, 12, 14, 2),
        request("v", 2, 14, 18, 4),
        request("w", 3, None, None),
    ),
    (Stay(A, LaunchId(1), 0, 10),),
)


def test_a_run_in_figures() -> None:
    """Latency counts from arrival to answer, wait from arrival to the beginning of work."""
    found = figures(RUN)

    assert (found.served, found.unserved, found.loads) == (3, 1, 1)
    assert (found.makespan_s, found.per_hour) == (18, 600)
    assert found.mean_s == pytest.approx((12 + 2 + 16) / 3)
    assert found.longest_wait_s == 12
    assert (found.client_mean_s, found.worst_client_s) == ((7 + 16) / 2, 16)


def test_stalled_is_when_nothing_runs_though_somebody_waits() -> None:
    """Waiting beside running work is no stall."""
    assert stalled_s(RUN.requests, 18) == 10
    assert figures(RUN).stalled == pytest.approx(10 / 18)


def test_a_run_without_requests_has_figures_too() -> None:
    """Nothing to divide by is nothing to fail on."""
    nothing = figures(Run((), ()))

    assert (nothing.served, nothing.per_hour, nothing.mean_s, nothing.stalled, nothing.fairness) == (0, 0, 0, 0, 1)


def test_fairness_is_one_when_all_fare_alike() -> None:
    """And one over the number of clients when one has everything."""
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)


def test_a_quantile_is_a_value_that_occurred() -> None:
    """No interpolation: a p99 is the latency of a request."""
    assert [quantile([1, 2, 3, 4], q) for q in (0, 0.5, 0.95, 1)] == [1, 3, 4, 4]
