"""The queue keeps its order and loses no ticket."""

from __future__ import annotations

from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.scheduling.queue import Queue, RequestKind, Ticket

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


def ticket(number: int, model: ModelName = QWEN, since: float = 0.0) -> Ticket:
    return Ticket(TicketId(number), model, ClientId("someone"), since, RequestKind.USE)


def line_of(*tickets: Ticket) -> Queue:
    line = Queue()
    for each in tickets:
        line.join(each)
    return line


def test_tickets_wait_in_the_order_they_came() -> None:
    """Each model has its own queue."""
    line = line_of(ticket(1), ticket(2, LLAMA), ticket(3))

    assert [each.id for each in line.waiting_for(QWEN)] == [1, 3]
    assert [each.id for each in line] == [1, 3, 2]
    assert (len(line), line.count(QWEN), line.count(LLAMA)) == (3, 2, 1)


def test_leaving_from_the_middle() -> None:
    """A ticket that leaves is gone, and the others keep their places."""
    line = line_of(ticket(1), ticket(2), ticket(3))

    assert line.leave(TicketId(2)) == ticket(2)
    assert [each.id for each in line.waiting_for(QWEN)] == [1, 3]


def test_leaving_a_line_one_is_not_in() -> None:
    """A ticket that does not wait here leaves without a trace."""
    line = line_of(ticket(1))

    assert line.leave(TicketId(9)) is None
    assert len(line) == 1


def test_a_model_nobody_waits_for() -> None:
    """When its last ticket leaves, the model has no entry."""
    line = line_of(ticket(1))
    line.leave(TicketId(1))

    assert line.models() == ()
    assert line.waiting_for(QWEN) == ()
    assert line.count(QWEN) == 0


def test_the_oldest() -> None:
    """The age of a queue is the age of its first ticket."""
    line = line_of(ticket(1, since=3), ticket(2, since=5))
    line.leave(TicketId(1))

    assert line.oldest(QWEN) == 5


def test_a_ticket_of_the_previous_process_is_as_old_as_it_is() -> None:
    """It joins in the order of service, which need not be that of age."""
    line = line_of(ticket(1, since=3), ticket(2, since=1), ticket(3, since=5))
    queue = line.of(QWEN)

    assert line.oldest(QWEN) == 1
    assert queue is not None
    assert [each.id for each in queue.in_order()] == [1, 2, 3]
