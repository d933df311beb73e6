"""Messages with file descriptors between two processes."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from hotseat.handover.channel import Channel, Closed, receive_first

pytestmark = pytest.mark.anyio


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
