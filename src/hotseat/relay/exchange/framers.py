"""How the body of a response is framed for its client: chosen once, when the response begins.

A response that breaks off must never look complete: each framer cuts in the way that shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hotseat.error_bodies import stream_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.error_bodies import Dialect
    from hotseat.errors import HotseatError, UpstreamError
    from hotseat.identifiers import Instant
    from hotseat.relay.http.response_head import ResponseHead
    from hotseat.relay.upstream.response_reader import ResponseReader


class Client(Protocol):
    """The connection of a client, as an exchange uses it."""

    peer: str
    """Its address."""

    @property
    def write(self) -> Callable[[bytes], None]: ...
    @property
    def is_full(self) -> bool:
        """Is so much unread that nothing should be added?"""

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None: ...
    def exchange_ended(self, *, keep_alive: bool, now: Instant) -> None: ...
    def become_tunnel(self) -> None: ...
    def tunnel_used(self) -> None: ...
    def tunnel_ended(self) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...
    def abort(self) -> None:
        """Reset the connection at once."""
        ...

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """End the connection so that nobody can take the response for complete."""
        ...


class Framer:
    """Without a change: one call per part of the body."""

    __slots__ = ("_client", "_keep_alive", "_reader", "head")

    def __init__(
        self, client: Client, head: ResponseHead, *, keep_alive: bool, reader: ResponseReader | None = None
    ) -> None:
        self._client = client
        self._keep_alive = keep_alive
        self._reader = reader
        self.head = head

    @property
    def status(self) -> int:
        """For logs and metrics."""
        return self.head.status

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the next part of the body."""
        return self._client.write

    def framed(self, data: bytes) -> bytes:
        """A part of the body as the client gets it."""
        return data

    def problem_at_end(self) -> UpstreamError | None:
        """What the complete body lacks; None if the client can get it."""
        return None

    def end(self, now: Instant) -> None:
        """The body is complete; the client's connection goes on or closes."""
        self._client.exchange_ended(keep_alive=self._keep_alive, now=now)

    def stop(self) -> None:
        """Do nothing more by itself."""

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        """The body breaks off here: show it, with an error event if the stream is at a place for one."""
        raise NotImplementedError


class Verbatim(Framer):
    """The upstream's bytes, framed by their length or their own chunks."""

    __slots__ = ()

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        has_place = self.head.is_event_stream and self._reader is not None and self._reader.is_between_chunks
        self._client.cut(chunk(error_event(error, dialect)) if has_place else b"", looks_complete=False)


class Dechunk(Framer):
    """Without framing, for HTTP/1.0: the end of the connection ends the body, so a cut must be a reset."""

    __slots__ = ()

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        event = error_event(error, dialect) if self.head.is_event_stream else b""
        self._client.cut(event, looks_complete=True)


class Rechunk(Framer):
    """In chunks of ours, for a body that the upstream ends by closing its connection.

    If we were killed, the kernel would close the client's connection too: that must not look like a complete body.
    """

    __slots__ = ()

    def framed(self, data: bytes) -> bytes:
        return chunk(data) if data else b""

    def write(self, data: bytes) -> None:
        if framed := self.framed(data):
            self._client.write(framed)

    def end(self, now: Instant) -> None:
        self._client.write(b"0\r\n\r\n")
        super().end(now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        event = chunk(error_event(error, dialect)) if self.head.is_event_stream else b""
        self._client.cut(event, looks_complete=False)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def error_event(error: HotseatError, dialect: Dialect) -> bytes:
    """The blank line ends an unfinished event."""
    return b"\n\n" + stream_error(error.message, error.code, dialect)
