"""What two processes tell each other, about requests too."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest
from tests.support.catalogs import gpu

from hotseat.api.routes.events import plain
from hotseat.errors import Busy, HotseatError, LoadFailed
from hotseat.handover.channel import (
    Channel,
    Closed,
    Message,
    command_in,
    error_facts,
    error_in,
    event_facts,
    event_in,
    receive_first,
    upstream_facts,
)
from hotseat.identifiers import Address, ClientId, ModelName, TicketId, Upstream
from hotseat.scheduling.commands import Confirm, Cut, Grant, Refuse
from hotseat.scheduling.events import (
    KeepAliveChanged,
    LoadRequested,
    OverridesChanged,
    ProfileChanged,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
    YieldEnded,
    YieldRequested,
)

pytestmark = pytest.mark.anyio
TICKET, MODEL, CLIENT = TicketId(7), ModelName("qwen"), ClientId("ann")


def pair() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return Channel(ours), Channel(theirs)


async def test_a_message_arrives_with_its_descriptors() -> None:
    """The receiver gets copies: the sender may close its own at once."""
    ours, theirs = pair()
    read_end, write_end = os.pipe()

    ours.send("state", write_end, model="qwen")
    os.close(write_end)
    message = await theirs.receive()
    os.write(message.fds[0], b"hello")

    assert (message.kind, message.facts) == ("state", {"model": "qwen"})
    assert os.read(read_end, 5) == b"hello"
    os.close(message.fds[0])
    os.close(read_end)
    ours.close()
    theirs.close()


async def test_a_message_larger_than_the_socket_takes() -> None:
    """It is sent in pieces, as far as the other side reads."""
    ours, theirs = pair()

    ours.send("state", text="x" * 3_000_000)
    ours.send("after")

    assert len((await theirs.receive()).facts["text"]) == 3_000_000
    assert (await theirs.receive()).kind == "after"
    ours.close()
    theirs.close()


async def test_the_other_side_closes() -> None:
    """What it had sent is still received, then every wait ends."""
    ours, theirs = pair()

    theirs.send("failed", reason="no memory")
    theirs.close()

    assert (await ours.receive()).kind == "failed"
    for _ in range(2):
        with pytest.raises(Closed):
            await ours.receive()
    ours.send("nobody reads this")


async def test_closing_with_unsent_messages_closes_their_descriptors() -> None:
    """Otherwise they would stay open for ever."""
    ours, theirs = pair()
    before = len(os.listdir("/proc/self/fd"))

    ours.send("state", text="x" * 3_000_000)
    ours.send("more", 0)
    ours.close()

    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before
    theirs.close()


def test_the_first_message_before_an_event_loop_runs() -> None:
    """The new process needs its sockets before it opens its parts."""
    ours, theirs = socket.socketpair()
    ours.sendall(b'{"kind": "hello", "version": 1}\n')

    assert receive_first(theirs, within=5.0).facts == {"version": 1}
    ours.close()
    with pytest.raises(ConnectionResetError):
        receive_first(theirs, within=5.0)
    theirs.close()


@pytest.mark.parametrize(
    "event",
    [
        RequestArrived(TICKET, MODEL, CLIENT, takes_slot=False),
        RequestLeft(TICKET, is_answered=True),
        LoadRequested(TICKET, MODEL, CLIENT),
        UnloadRequested(TICKET, MODEL, force=True),
        KeepAliveChanged(MODEL, 30.0),
        PromptProcessed(TICKET, 10, 20, 0.5, 3),
        YieldRequested("training", frozenset({gpu(0), gpu(1)})),
        YieldEnded(),
        OverridesChanged(MODEL, pinned=True, ttl_s=5.0),
        ProfileChanged("night"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_arrives_as_it_was_sent(event: RequestArrived) -> None:
    """A newer process may add fields, which are ignored."""
    facts = json.loads(json.dumps({**event_facts(event), "added_later": 1}))

    assert event_in(Message(type(event).__name__, facts)) == event


def test_kinds_of_another_version_are_ignored() -> None:
    """The two processes need not be of the same version."""
    assert event_in(Message("SomethingNew", {"ticket": 7})) is None
    assert command_in(Message("SomethingNew", {"ticket": 7})) is None


def test_decisions_arrive_as_they_were_made() -> None:
    """A grant has the address of the server and the key that it demands, which is shown nowhere."""
    upstream = Upstream(Address("127.0.0.1", 9000, prefix="/v1"), 123, 124, api_key="made")
    granted = command_in(Message("Grant", {"ticket": 7, "upstream": upstream_facts(upstream), "reason": "ready"}))

    assert isinstance(granted, Grant)
    assert "made" not in f"{granted}{plain(granted)}"
    assert (granted.ticket, granted.upstream, granted.reason) == (7, upstream, "ready")
    assert isinstance(command_in(Message("Confirm", {"ticket": 7})), Confirm)
    assert isinstance(command_in(Message("Refuse", {"ticket": 7, "error": error_facts(Busy("full"))})), Refuse)
    assert isinstance(command_in(Message("Cut", {"ticket": 7, "error": error_facts(Busy("full"))})), Cut)


def test_an_error_keeps_its_kind() -> None:
    """Its status and its Retry-After are what the client gets; an unknown kind becomes an internal error."""
    busy, failed = (
        error_in(error_facts(Busy("full", retry_after=3))),
        error_in(error_facts(LoadFailed("no", output=["x"]))),
    )

    assert (type(busy), busy.message, busy.retry_after) == (Busy, "full", 3)
    assert isinstance(failed, LoadFailed)
    assert type(error_in({"name": "Unheard", "message": "odd"})) is HotseatError
