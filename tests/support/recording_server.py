"""Servers that answer every request and record what they receive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tests.support.role_reading import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

OK = b'{"choices":[{"text":"ok"}],"data":[]}'
"""A completion, and a list of vectors."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as a server received it."""

    server: str
    request: Request


class RecordingServer(asyncio.Protocol):
    """Records every request and answers it with 200, or an upgrade with 101."""

    def __init__(self, name: str, received: list[Received]) -> None:
        self._name, self._received = name, received
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (taken := take_request(self._unread)) is not None:
            request, self._unread = taken
            self._received.append(Received(self._name, request))
            self._transport.write(answer_to(request))
            if request.values("upgrade"):
                self._transport.close()


def take_request(data: bytes) -> tuple[Request, bytes] | None:
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
    request = Request(method, target, pairs)
    if request.values("transfer-encoding"):
        body, end, rest = rest.partition(b"0\r\n\r\n")
        return (replace(request, body=unchunked(body)), rest) if end else None
    size = int((request.values("content-length") or ["0"])[0])
    return (replace(request, body=rest[:size]), rest[size:]) if len(rest) >= size else None


def unchunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return body


def answer_to(request: Request) -> bytes:
    if request.values("upgrade"):
        return b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(OK) + (b"" if request.method == "HEAD" else OK)


def recorded(app: Asgi, received: list[Received]) -> Asgi:
    """The management API with every request recorded."""

    async def answered(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        received.append(
            Received("hotseat", Request(scope.get("method", "GET"), scope["raw_path"].decode("latin-1"), pairs))
        )
        await app(scope, receive, send)

    return answered
