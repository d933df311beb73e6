"""Batch requests are served after others, and nobody waits for ever because of that."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import arrives, grants, leaves, nothing, wakes_at

from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.scheduling.queue import OTHERS_FIRST, PLACES, ModelQueue, RequestKind, Ticket

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

QWEN = ModelName("qwen")


@pytest.fixture
def driver(new_driver: NewDriver) -> SchedulerDriver:
    return new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama")).with_ready("qwen", 1)


def test_a_person_asks_while_a_batch_waits(driver: SchedulerDriver) -> None:
    """The person is served first, though the batch came first."""
    driver >> arrives(2, "qwen", "batch", is_batch=True) << nothing
    driver >> arrives(3, "qwen", "person") << nothing

    driver >> leaves(1) << grants(3)
    driver >> leaves(3) << grants(2)


def test_people_ask_again_and_again_while_a_batch_waits(driver: SchedulerDriver) -> None:
    """Every fifth request that is served is one of the batch."""
    for ticket in (2, 3):
        driver >> arrives(ticket, "qwen", "batch", is_batch=True) << nothing
    for ticket in range(10, 19):
        driver >> arrives(ticket, "qwen", f"person {ticket}") << nothing
    shown = [int(ticket.ticket) for ticket in driver.scheduler.view(driver.now).queue]
    served = [1, 10, 11, 12, 13, 2, 14, 15, 16, 17, 3, 18]

    for done, following in pairwise(served):
        driver >> leaves(done) << grants(following)
    assert sorted(shown) == sorted(served[1:])


def test_a_batch_waits_for_another_model(new_driver: NewDriver) -> None:
    """The model in use stays twice as long as it would for a person."""
    for is_batch, turn_s in ((False, 50), (True, 90)):
        driver = new_driver(one_at_a_time("qwen", "llama")).with_ready("qwen", 1)
        driver >> arrives(2, "llama", is_batch=is_batch) << wakes_at(turn_s)


def test_a_person_joins_a_batch_that_waits_for_another_model(new_driver: NewDriver) -> None:
    """The claim is a person's from then on, and begins with the batch."""
    driver = new_driver(one_at_a_time("qwen", "llama")).with_ready("qwen", 1)
    driver >> arrives(2, "llama", is_batch=True) << wakes_at(90)

    driver.at(20) >> arrives(3, "llama", "person") << wakes_at(50)


CLIENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=60)


@given(arriving=CLIENTS)
def test_any_clients_wait_for_one_slot(arriving: list[tuple[str, bool]]) -> None:
    """However others ask, a client is served after its turn among its kind, and batches get every fifth place."""
    queue = ModelQueue()
    for number, (client, is_batch) in enumerate(arriving):
        name = ClientId(f"{client} {'batch' if is_batch else 'person'}")
        queue.join(Ticket(TicketId(number), QWEN, name, float(number), RequestKind.USE, is_batch))
    foreseen, served = list(queue.in_order()), []
    while ticket := queue.next(slot_free=True):
        queue.serve(ticket)
        served.append(ticket)

    assert served == foreseen
    assert len(served) == len(arriving)
    for is_batch in (True, False):
        check_first_requests([ticket for ticket in served if ticket.is_batch is is_batch])
    check_shares(served)


def check_first_requests(served: list[Ticket]) -> None:
    """Before the first request of a client, each other one of its kind has at most its places."""
    clients = list(dict.fromkeys(ticket.client for ticket in served))
    for place, client in enumerate(clients):
        first = next(n for n, ticket in enumerate(served) if ticket.client == client)
        assert first <= place * PLACES


def check_shares(served: list[Ticket]) -> None:
    """While both kinds wait, each batch request follows exactly OTHERS_FIRST others."""
    last_other = max((n for n, ticket in enumerate(served) if not ticket.is_batch), default=-1)
    last_batch = max((n for n, ticket in enumerate(served) if ticket.is_batch), default=-1)
    both = served[: min(last_other, last_batch) + 1]
    assert [n for n, ticket in enumerate(both) if ticket.is_batch] == [
        *range(OTHERS_FIRST, len(both), OTHERS_FIRST + 1)
    ]
