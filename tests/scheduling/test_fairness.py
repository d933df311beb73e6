"""Clients take turns in the line of a model: who asks often waits for his own requests, not others for his."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.playbook import arrives, grants, leaves, nothing

from hotseat.scheduling.fairness import MOST_ACCOUNTS, FairOrder
from hotseat.terms import ClientId

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def one_slot(stage: Stage) -> Playbook:
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1000))
    return yard.with_ready("qwen", 1)


def test_a_flood_does_not_delay_another_client(stage: Stage) -> None:
    """600 requests of one client are one place in the line."""
    yard = one_slot(stage)
    for ticket in range(2, 602):
        yard >> arrives(ticket, "qwen", "flood") << nothing
    yard >> arrives(1000, "qwen", "person") << nothing

    yard >> leaves(1) << grants(2)
    yard >> leaves(2) << grants(1000)
    yard >> leaves(1000) << grants(3)


def test_clients_take_turns(stage: Stage) -> None:
    """One of each, round after round, each client's own in order."""
    yard = one_slot(stage)
    for ticket, client in enumerate("aaabbc", start=2):
        yard >> arrives(ticket, "qwen", client) << nothing
    served = [1, 2, 5, 7, 3, 6, 4]

    for done, following in pairwise(served):
        yard >> leaves(done) << grants(following)


def test_the_line_is_shown_as_it_will_be_served(stage: Stage) -> None:
    """Each is told how many are ahead of him, which is not always how many came before."""
    yard = one_slot(stage)
    yard.at(14) >> leaves(1) << nothing
    yard >> arrives(2, "qwen", "a") << grants(2)
    for ticket, client in ((3, "a"), (4, "a"), (5, "b")):
        yard >> arrives(ticket, "qwen", client) << nothing
    shown = {int(ticket.ticket): ticket for ticket in yard.scheduler.view(yard.now).line}

    assert shown[3].why == "waiting for a free slot on qwen (1 of 1 busy)"
    assert shown[5].why == "waiting for a free slot on qwen (1 of 1 busy), 1 ahead"
    assert shown[4].why.endswith("2 ahead")
    assert [shown[ticket].expected_in_s for ticket in (3, 5, 4)] == [4, 8, 12]


def test_a_client_that_gives_up_leaves_no_trace(stage: Stage) -> None:
    """Its place is gone with its last ticket."""
    yard = one_slot(stage)
    yard >> arrives(2, "qwen", "a") << nothing
    yard >> arrives(3, "qwen", "b") << nothing
    yard >> leaves(2) << nothing

    yard >> leaves(1) << grants(3)


def test_time_is_counted_not_requests(stage: Stage) -> None:
    """Whose requests take ten times as long is served a tenth as often."""
    yard = one_slot(stage)
    yard.at(20) >> arrives(2, "qwen", "long") << nothing
    yard >> arrives(3, "qwen", "short") << nothing
    yard >> leaves(1) << grants(2)
    yard.at(30) >> leaves(2) << grants(3)
    for ticket in range(10, 16):
        yard >> arrives(ticket, "qwen", "long" if ticket % 2 else "short") << nothing
    yard.at(31) >> leaves(3) << grants(10)
    yard.at(32) >> leaves(10) << grants(11)
    yard.at(42) >> leaves(11) << grants(12)
    yard.at(43) >> leaves(12) << grants(14)
    shown = [int(ticket.ticket) for ticket in yard.scheduler.view(yard.now).line]

    assert shown == [13, 15]


def test_accounts_are_bounded() -> None:
    """Clients that have gone are forgotten, those that wait are not."""
    order = FairOrder()
    order.join(ClientId("waits"))
    for n in range(2 * MOST_ACCOUNTS):
        client = ClientId(f"passes by {n}")
        order.join(client)
        order.charge(client, 5)
        order.leave(client)

    assert len(order._accounts) <= MOST_ACCOUNTS + 1
    assert order.first() == "waits"
