"""The bound on waiting, and the wait that it bounds, worked out by hand."""

from __future__ import annotations

from bench.scheduling.bound import bound_of, claims, worst_share_of_bound

from hotseat.catalog.catalog import Policy
from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.simulation.results import Request, Run, Stay
from hotseat.simulation.trace import Memory, Model, Open, Trace

A, B = ModelName("A"), ModelName("B")
TRACE = Trace(
    (Model("A", 10.0, 1.0), Model("B", 4.0, 2.0), Model("idle", 100.0, 1.0)),
    (Open("u", 0.0, "A", 3.0), Open("u", 0.0, "A", 5.0), Open("v", 0.0, "B", 7.0)),
    Memory({"gpu0": 24.0}),
)


def test_the_bound_is_the_sum_of_everybodys_turn() -> None:
    """Loads, stops and drains of all contenders, and two turns of each other; unused models do not count."""
    every_load_stop_and_drain = (10 + 1 + 5) + (4 + 2 + 7)

    assert bound_of(TRACE, "A", Policy(2)) == every_load_stop_and_drain + 2 * (2 * (4 + 10))
    assert bound_of(TRACE, "B", Policy(0)) == every_load_stop_and_drain + (0 + 10)


def request(model: ModelName, arrived: float, started: float) -> Request:
    return Request(TicketId(0), "u", model, 1.0, arrived, started, started + 1)


RUN = Run(
    (request(A, 0, 10), request(B, 2, 30), request(A, 20, 60)),
    (
        Stay(A, LaunchId(1), asked=0, ready=10, draining=22, stopping=25, gone=26),
        Stay(B, LaunchId(2), asked=26, ready=30, stopping=49, gone=51),
        Stay(A, LaunchId(3), asked=51, ready=61),
    ),
)


def test_a_claim_begins_with_the_oldest_request() -> None:
    """But not before the model's own last turn ended: A was requested at 20 and told to stop at 22."""
    found = [(claim.model, claim.since, claim.ready) for claim in claims(RUN)]

    assert found == [(A, 0, 10), (B, 2, 30), (A, 22, 61)]


def test_the_longest_wait_is_a_share_of_its_bound() -> None:
    """A waited 39 s; its bound with patience 2 is 85 s."""
    assert worst_share_of_bound(TRACE, RUN, Policy(2)) == 39 / bound_of(TRACE, "A", Policy(2))


def test_a_load_that_nobody_waited_for_has_no_claim() -> None:
    """Neither has one that came to nothing."""
    idle, given_up = Stay(A, LaunchId(1), asked=0, ready=10), Stay(B, LaunchId(2), asked=0, stopping=1)

    assert list(claims(Run((request(B, 0, 99),), (idle, given_up)))) == []
