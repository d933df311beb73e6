"""The framers of translated responses.

A stream becomes lines of JSON as it arrives. A whole response and an error are kept until they are complete, because
only then their translation is known; until then an error can still be sent with its status.

Whatever is kept of an upstream's response has a limit, and what is done with one read, or at its end, takes less than a
tenth of a second. `tests/relay/upstream/test_floods.py` floods every place: add a flood for each new one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import HotseatError, UpstreamError
from hotseat.ollama.completions import MOST_OF_AN_ERROR, error_text
from hotseat.ollama.requests import Answer
from hotseat.ollama.responses import Situation, error_line, translated
from hotseat.relay.exchange.framers import Framer, chunk
from hotseat.relay.http.body import Body
from hotseat.relay.http.response_head import read_response_head
from hotseat.settings import MiB

if TYPE_CHECKING:
    from hotseat.error_bodies import Dialect
    from hotseat.identifiers import Bytes, Instant
    from hotseat.ollama.requests import Translation
    from hotseat.ollama.responses import StreamTranslator
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.exchange.framers import Client
    from hotseat.relay.http.response_head import ResponseHead

MOST_OF_A_COMPLETION: Bytes = 4 * MiB
MOST_OF_VECTORS: Bytes = 16 * MiB
"""Of eight hundred texts: a thousand numbers with all their digits take 20 KiB."""
STREAM_HEAD, _ = read_response_head(
    200,
    b"OK",
    [(b"Content-Type", b"application/x-ndjson"), (b"X-Accel-Buffering", b"no"), (b"Transfer-Encoding", b"chunked")],
)
JSON = (b"Content-Type", b"application/json; charset=utf-8")
RETRY_ADVICE = (b"Retry-After", b"x-should-retry")
SUCCESS = range(200, 300)


def is_translatable_stream(head: ResponseHead) -> bool:
    return head.status in SUCCESS and head.is_event_stream


def situation_of(exchange: Exchange, translation: Translation) -> Situation:
    context, began, accounting = exchange.context, exchange.request.began, exchange.accounting
    model = translation.model or accounting.model or ""
    return Situation(model, time.time_ns, lambda: context.now() - began, accounting.waited_s(began))


class ChunkedLines(Framer):
    """A stream, in chunks of ours: what the upstream writes at a time is one of them."""

    __slots__ = ("_last_lines", "_translator")
    _last = b"0\r\n\r\n"
    _cut_looks_complete = False

    def __init__(self, client: Client, head: ResponseHead, translator: StreamTranslator, *, keep_alive: bool) -> None:
        super().__init__(client, head, keep_alive=keep_alive)
        self._translator = translator
        self._last_lines = b""

    @staticmethod
    def _wrapped(lines: bytes) -> bytes:
        return chunk(lines)

    def framed(self, data: bytes) -> bytes:
        """Of the first part: what cannot be translated is an error with a status."""
        lines, problem = self._translator.feed(data)
        if problem is not None:
            raise problem
        return self._wrapped(lines) if lines else b""

    def write(self, data: bytes) -> None:
        lines, problem = self._translator.feed(data)
        if lines:
            self._client.write(self._wrapped(lines))
        if problem is not None:
            raise problem

    def problem_at_end(self) -> UpstreamError | None:
        try:
            self._last_lines = self._translator.end()
        except UpstreamError as problem:
            return problem
        return None

    def end(self, now: Instant) -> None:
        last = (self._wrapped(self._last_lines) if self._last_lines else b"") + self._last
        if last:
            self._client.write(last)
        super().end(now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        self._client.cut(self._wrapped(error_line(error.message)), looks_complete=self._cut_looks_complete)


class LinesUntilClosed(ChunkedLines):
    """The same for HTTP/1.0: the end of the connection ends the body, so a cut must be a reset."""

    __slots__ = ()
    _last = b""
    _cut_looks_complete = True

    @staticmethod
    def _wrapped(lines: bytes) -> bytes:
        return lines


class OwnHead(Protocol):
    def __call__(self, head: ResponseHead, length: Bytes, *, keep_alive: bool) -> bytes: ...


class TranslatedWhole(Framer):
    """A response that is sent when it is complete. Until then it counts among the bodies of all requests."""

    __slots__ = ("_body", "_exchange", "_most", "_own_head", "_situation", "_translation")

    def __init__(
        self, exchange: Exchange, translation: Translation, situation: Situation, head: ResponseHead, own_head: OwnHead
    ) -> None:
        keep_alive = exchange.request.head.keep_alive and not exchange.context.is_draining
        super().__init__(exchange.client, head, keep_alive=keep_alive)
        self._exchange = exchange
        self._translation = translation
        self._situation = situation
        self._own_head = own_head
        is_text = translation.answer in (Answer.MESSAGE, Answer.RESPONSE)
        self._most = MOST_OF_A_COMPLETION if is_text else MOST_OF_VECTORS
        self._body = Body()
        """The upstream's, then its translation."""
        request = exchange.request
        self._body.sender = request.client
        self._body.is_privileged = request.verdict.is_privileged(request.destination.rule.role)

    def framed(self, data: bytes) -> bytes:
        try:
            self._add(data)
        except HotseatError:
            self.stop()  # with the first part, its exchange does not know it yet
            raise
        return b""

    def _add(self, data: bytes) -> None:
        if self.head.status not in SUCCESS and self._body.size >= MOST_OF_AN_ERROR:
            return  # its beginning says what is wrong
        self._body.add(data)
        if self._body.size > self._most:
            raise UpstreamError(f"the upstream's response is larger than {self._most} bytes")
        self._exchange.context.check_space(self._body, self._exchange.client.peer)

    def write(self, data: bytes) -> None:
        self.framed(data)

    def problem_at_end(self) -> UpstreamError | None:
        try:
            self._body.replace(self._translated(self._body.whole()))
        except UpstreamError as problem:
            return problem
        self._exchange.context.bodies.count(self._body)
        return None

    def _translated(self, body: bytes) -> bytes:
        if self.head.known.get(b"content-encoding", b"identity").lower() != b"identity":
            raise UpstreamError("the upstream's response is compressed, though nobody asked for that")
        if self.head.status not in SUCCESS:
            return error_line(error_text(body, self.head.status))
        return translated(self._translation.answer, self._situation, body)

    def end(self, now: Instant) -> None:
        known = ((name, self.head.known.get(name.lower())) for name in RETRY_ADVICE)
        fields = [JSON, *((name, value) for name, value in known if value is not None)]
        head, _ = read_response_head(self.head.status, self.head.reason, fields)
        self._client.write(self._own_head(head, self._body.size, keep_alive=self._keep_alive) + self._body.whole())
        self.stop()
        super().end(now)

    def stop(self) -> None:
        self._exchange.context.bodies.forget(self._body)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        """Nothing was sent yet."""
        self._client.refuse(error, keep_alive=self._keep_alive)
        self._client.exchange_ended(keep_alive=self._keep_alive, now=self._exchange.context.now())
