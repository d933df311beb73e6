"""How the body of a response is framed for its client: chosen once, when the response begins.

A response that breaks off must never look complete: each framer cuts in the way that shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hotseat.error_bodies import stream_error
from hotseat.relay.http.response_head import CLOSE, LAST_CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.error_bodies import Dialect
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant
    from hotseat.relay.exchange.client_side import Client
    from hotseat.relay.http.response_head import ResponseHead

LAST = b"0\r\n\r\n"


class Framer(Protocol):
    @property
    def status(self) -> int:
        """For logs and metrics."""
        ...

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the next part of the body."""
        ...

    def framed(self, data: bytes) -> bytes:
        """The same part as the client gets it."""
        ...

    def end(self, now: Instant) -> None:
        """The body is complete; the client's connection goes on or closes."""
        ...

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        """The body breaks off here: show it, with an error event if the stream is at a place for one."""
        ...


class Verbatim:
    """The upstream's bytes, framed by their length or their own chunks: one call per part."""

    __slots__ = ("_client", "_is_between_chunks", "_keep_alive", "_takes_events", "status", "write")

    def __init__(
        self, client: Client, head: ResponseHead, *, keep_alive: bool, is_between_chunks: Callable[[], bool]
    ) -> None:
        self._client = client
        self._keep_alive = keep_alive
        self._takes_events = head.is_event_stream
        self._is_between_chunks = is_between_chunks
        self.status = head.status
        self.write = client.write

    def framed(self, data: bytes) -> bytes:
        return data

    def end(self, now: Instant) -> None:
        self._client.exchange_ended(keep_alive=self._keep_alive, now=now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        has_place = self._takes_events and self._is_between_chunks()
        self._client.cut(chunk(error_event(error, dialect)) if has_place else b"", looks_complete=False)


class Dechunk:
    """Without framing, for HTTP/1.0: the end of the connection ends the body, so a cut must be a reset."""

    __slots__ = ("_client", "_takes_events", "status", "write")

    def __init__(self, client: Client, head: ResponseHead) -> None:
        self._client = client
        self._takes_events = head.is_event_stream
        self.status = head.status
        self.write = client.write

    def framed(self, data: bytes) -> bytes:
        return data

    def end(self, now: Instant) -> None:
        self._client.exchange_ended(keep_alive=False, now=now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        event = error_event(error, dialect) if self._takes_events else b""
        self._client.cut(event, looks_complete=True)


class Rechunk:
    """In chunks of ours, for a body that the upstream ends by closing its connection.

    If we were killed, the kernel would close the client's connection too: that must not look like a complete body.
    """

    __slots__ = ("_client", "_keep_alive", "_takes_events", "status")

    def __init__(self, client: Client, head: ResponseHead, *, keep_alive: bool) -> None:
        self._client = client
        self._keep_alive = keep_alive
        self._takes_events = head.is_event_stream
        self.status = head.status

    def framed(self, data: bytes) -> bytes:
        return chunk(data) if data else b""

    def write(self, data: bytes) -> None:
        if data:
            self._client.write(chunk(data))

    def end(self, now: Instant) -> None:
        self._client.write(LAST)
        self._client.exchange_ended(keep_alive=self._keep_alive, now=now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        event = chunk(error_event(error, dialect)) if self._takes_events else b""
        self._client.cut(event, looks_complete=False)


def framer_for(
    client: Client,
    head: ResponseHead,
    *,
    http10: bool,
    keep_alive: bool,
    has_body: bool,
    is_between_chunks: Callable[[], bool],
) -> Framer:
    if has_body and http10 and head.body_end in (LAST_CHUNK, CLOSE):
        return Dechunk(client, head)
    if has_body and head.body_end is CLOSE:
        return Rechunk(client, head, keep_alive=keep_alive)
    return Verbatim(client, head, keep_alive=keep_alive, is_between_chunks=is_between_chunks)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def error_event(error: HotseatError, dialect: Dialect) -> bytes:
    """The blank line ends an unfinished event."""
    return b"\n\n" + stream_error(error.message, error.code, dialect)
