"""A relay that streams the reason for waiting, and a client that reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.alarms import Alarms
from tests.support.relay_rig import post, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.relay.exchange.early_stream import GRACE_S

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

STREAMED = b'{"model":"slow","stream":true}'
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED_EVENTS = EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"


def ask(*fields: str, target: str = "/v1/chat/completions", body: bytes = STREAMED, version: str = "1.1") -> bytes:
    return post(body, "Content-Type: application/json", *fields, target=target, version=version)


@dataclass
class WaitingClient:
    rig: RelayRig
    alarms: Alarms

    async def enter(self, request: bytes = b"", *, receive_buffer: int | None = None) -> Wire:
        """A client whose request is queued for the slow model."""
        client = await self.rig.client(receive_buffer=receive_buffer)
        await client.send(request or ask())
        await come_true(lambda: self.rig.waiting() == 1)
        return client

    async def early_answer(self, request: bytes = b"") -> tuple[Wire, bytes]:
        """A client whose response has begun before the model is ready, and the head of that response."""
        client = await self.enter(request)
        self.alarms.wait(GRACE_S)
        return client, await client.read_until(b"\r\n\r\n")

    async def loaded(self) -> Call:
        """The model is ready and has received the request."""
        self.rig.launcher.become_ready("slow")
        return await self.rig.upstreams["slow"].call()

    def status(self) -> int:
        """The recorded status of the only request."""
        (entry,) = self.rig.activity.entries
        return entry.status


def waiting_client(rig: RelayRig) -> WaitingClient:
    alarms = Alarms()
    rig.relay.context.later = alarms.later  # type: ignore[assignment]  # an Alarm can be cancelled, which is all that is needed
    return WaitingClient(rig, alarms)


async def piece(client: Wire) -> bytes:
    """The next chunk, which must have arrived whole."""
    size = int(await client.read_until(b"\r\n"), 16)
    return (await client.read_exactly(size + 2))[:-2]


async def pieces_to_the_end(client: Wire) -> bytes:
    """All chunks up to the last one."""
    data = b""
    while size := int(await client.read_until(b"\r\n"), 16):
        data += (await client.read_exactly(size + 2))[:-2]

    assert await client.read_exactly(2) == b"\r\n"
    return data


async def cut_off(client: Wire) -> bytes:
    """All chunks of a response that ends without a last one."""
    assert await client.end() is End.CLOSED
    data = b""
    while client.unread:
        data += await piece(client)

    return data


def without_comments(data: bytes) -> bytes:
    """The data as an SDK sees it."""
    return re.sub(rb"(?m)^:.*\n\n", b"", data)


async def silent(client: Wire) -> bool:
    """Whether the client has received nothing."""
    await turns()
    try:
        return not client.sock.recv(1)
    except BlockingIOError:
        return True
