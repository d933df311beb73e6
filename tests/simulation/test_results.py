"""The figures of a run, each small enough to check by hand."""

from __future__ import annotations

import pytest

from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.simulation.results import (
    Request,
    Run,
    Stay,
    batch_completions,
    client_slowdowns,
    figures,
    quantile,
    slowdown,
    stalled_s,
)

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


def test_each_client_counts_once_by_its_slowdown() -> None:
    """Latency over service: 12 / 2 and 2 / 2 of one client, 16 / 4 of the other; who was not served does not count."""
    found = figures(RUN)

    assert client_slowdowns(RUN) == pytest.approx({"u": 6**0.5, "v": 4})
    assert found.slowdown == pytest.approx((6**0.5 * 4) ** 0.5)
    assert found.worst_slowdown == pytest.approx(4)


def test_a_batch_counts_by_its_completion() -> None:
    """From its start to the end of its last job; its jobs have no part in the slowdown."""
    run = Run(RUN.requests, RUN.stays, frozenset({"u"}))

    assert batch_completions(run) == {"u": 14}
    assert figures(run).slowdown == pytest.approx(4)


@pytest.mark.parametrize(("finished", "times"), [(0.02, 1), (0.2, 2), (1, 10)])
def test_a_tiny_request_counts_as_a_tenth_of_a_second(finished: float, times: float) -> None:
    """Otherwise a request of a millisecond that waits for ten would outweigh everybody."""
    assert slowdown(request("u", 0, 0, finished, service=0.001)) == pytest.approx(times)


def test_stalled_is_when_nothing_runs_though_somebody_waits() -> None:
    """Waiting beside running work is no stall."""
    assert stalled_s(RUN.requests, 18) == 10
    assert figures(RUN).stalled == pytest.approx(10 / 18)


def test_a_run_without_requests_has_figures_too() -> None:
    """Nothing to divide by is nothing to fail on."""
    nothing = figures(Run((), ()))

    assert (nothing.served, nothing.per_hour, nothing.mean_s, nothing.stalled, nothing.slowdown) == (0, 0, 0, 0, 1)


def test_a_quantile_is_a_value_that_occurred() -> None:
    """No interpolation: a p99 is the latency of a request."""
    assert [quantile([1, 2, 3, 4], q) for q in (0, 0.5, 0.95, 1)] == [1, 3, 4, 4]
