"""The first bytes of a response to a client: the upstream's head, with what this client and its wait need.

Most clients need nothing special, and get the head as it was prepared when it was parsed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotseat.error_bodies import one_line
from hotseat.ollama.responses import StreamTranslator
from hotseat.relay.exchange.early_stream import EarlyStream
from hotseat.relay.exchange.framers import Dechunk, Rechunk, Verbatim
from hotseat.relay.exchange.response_translation import (
    STREAM_HEAD,
    ChunkedLines,
    LinesUntilClosed,
    TranslatedWhole,
    is_translatable_stream,
    situation_of,
)
from hotseat.relay.http.forwarded_head import prepare, response_bytes
from hotseat.relay.http.response_head import CLOSE, LAST_CHUNK

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes, Seconds
    from hotseat.ollama.requests import Translation
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.http.response_head import ResponseHead
    from hotseat.relay.upstream.response_reader import ResponseReader

WORTH_REPORTING_S: Seconds = 0.1
"""Shorter waits need no explanation."""


def is_ordinary(exchange: Exchange, head: ResponseHead) -> bool:
    """Is the prepared head all that the client needs?"""
    request, asked = exchange.request, exchange.request.head
    return (
        asked.keep_alive
        and head.body_end is not CLOSE
        and exchange.framer is None
        and request.translation is None
        and not asked.http10
        and not exchange.accounting.waited_for
        and b"origin" not in asked.known
        and not exchange.context.is_draining
        and not (request.verdict.from_host and _queue_length(exchange))
    )


def ordinary_bytes(exchange: Exchange, head: ResponseHead, length: Bytes | None, data: bytes) -> bytes:
    """The prepared head with length, budgets and request id, and the part of the body that came with it."""
    lines, request = (head.prepared or prepare(head))[_is_confined(exchange)], exchange.request
    framing = b"" if length is None else b"Content-Length: %d\r\n" % length
    if request.verdict.from_host:  # it knows the id, and recognises a head that is always the same
        return b"%b%b\r\n%b" % (lines, framing, data)
    budgets = exchange.accounting.budget_lines
    return b"%b%b%b%b: %b\r\n\r\n%b" % (lines, framing, budgets, head.id_header, request.id, data)


def special_response(
    exchange: Exchange, head: ResponseHead, length: Bytes | None, data: bytes, reader: ResponseReader
) -> tuple[Framer, bytes]:
    """For all other clients: how the body is framed, and the same bytes."""
    if isinstance(exchange.framer, EarlyStream):
        return exchange.framer, exchange.framer.continued(head, data)
    if exchange.request.translation is not None:
        return _translated_response(exchange, exchange.request.translation, head, data)
    context, request, http10 = exchange.context, exchange.request, exchange.request.head.http10
    dechunk, has_body = http10 and head.body_end is LAST_CHUNK, request.head.method != b"HEAD"
    has_no_end = has_body and head.body_end is CLOSE
    closes = dechunk or (http10 and has_no_end)
    keep_alive = request.head.keep_alive and not closes and not context.is_draining
    kind = Dechunk if closes and has_body else Rechunk if has_no_end else Verbatim
    framer = kind(exchange.client, head, keep_alive=keep_alive, reader=reader)
    start = response_bytes(
        head,
        length,
        context.policy.cors.lines(request.head),
        dechunk=dechunk,
        close=not keep_alive,
        http10=http10,
        confine=_is_confined(exchange),
        ours=_own_lines(exchange, head, is_chunked=kind is Rechunk),
    )
    return framer, start + framer.framed(data)


def _is_confined(exchange: Exchange) -> bool:
    """A model server's own Host is another origin than ours. A fleet host knows which Host the client asked for."""
    request = exchange.request
    has_our_address = not (request.head.label or request.verdict.from_host)
    return has_our_address and exchange.accounting.model is not None and exchange.context.policy.confines_pages


def _translated_response(
    exchange: Exchange, translation: Translation, head: ResponseHead, data: bytes
) -> tuple[Framer, bytes]:
    """A stream begins at once; the head of a whole response says its length, so it is sent with the last byte."""
    situation, http10 = situation_of(exchange, translation), exchange.request.head.http10
    if not (translation.streams and is_translatable_stream(head)):
        whole = TranslatedWhole(exchange, translation, situation, head, partial(_own_head, exchange))
        return whole, whole.framed(data)
    kind = LinesUntilClosed if http10 else ChunkedLines
    keep_alive = exchange.request.head.keep_alive and not http10 and not exchange.context.is_draining
    framer = kind(exchange.client, STREAM_HEAD, StreamTranslator(translation.answer, situation), keep_alive=keep_alive)
    return framer, _own_head(exchange, STREAM_HEAD, None, keep_alive=keep_alive) + framer.framed(data)


def _own_head(exchange: Exchange, head: ResponseHead, length: Bytes | None, *, keep_alive: bool) -> bytes:
    """A head of ours, in place of the upstream's."""
    policy, asked = exchange.context.policy, exchange.request.head
    cors, ours = policy.cors.lines(asked), _own_lines(exchange, head, is_chunked=False)
    dechunk, close = asked.http10, not keep_alive
    return response_bytes(
        head, length, cors, dechunk=dechunk, close=close, http10=asked.http10, confine=True, ours=ours
    )


def _own_lines(exchange: Exchange, head: ResponseHead, *, is_chunked: bool) -> list[bytes]:
    request, accounting = exchange.request, exchange.accounting
    lines, waited_s = [], accounting.waited_s(request.began)
    if accounting.waited_for and waited_s >= WORTH_REPORTING_S:
        why = one_line(accounting.waited_for, 200).encode()
        lines += [b"Hotseat-Waited: %.3f" % waited_s, b"Hotseat-Why: %b" % why]
    if not request.verdict.from_host:
        lines.append(b"%b: %b" % (head.id_header, request.id))
        lines += accounting.budget_lines.splitlines()
    elif queue_length := _queue_length(exchange):
        lines.append(b"Hotseat-Queue-Length: %d" % queue_length)
    if is_chunked:
        lines.append(b"Transfer-Encoding: chunked")
    return lines


def _queue_length(exchange: Exchange) -> int:
    """Lets a forwarding host send its next request elsewhere if there is a queue here; only local models have one."""
    model, ticket = exchange.accounting.model, exchange.accounting.ticket
    return 0 if model is None or ticket is None else exchange.context.dispatcher.questions.queue_length(model)
