"""The first bytes of a response to a client: the upstream's head, with what this client and its wait need.

Most clients need nothing special, and get the head as it was prepared when it was parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hotseat.relay.exchange.framers import Rechunk, framer_for
from hotseat.relay.http.forwarded_head import lines_about_waiting, prepare, response_bytes
from hotseat.relay.http.response_head import CLOSE, LAST_CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.accounting import Accounting
    from hotseat.relay.exchange.client_side import Client
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.response_head import ResponseHead


class Answered(Protocol):
    """The exchange whose response begins."""

    context: Context
    client: Client
    request: Request
    accounting: Accounting


def is_ordinary(exchange: Answered, head: ResponseHead) -> bool:
    """Is the prepared head all that the client needs?"""
    request = exchange.request
    return (
        request.keep_alive
        and head.body_end is not CLOSE
        and not request.head.http10
        and not exchange.accounting.waited_for
        and b"origin" not in request.head.known
        and not exchange.context.is_draining
        and not (request.verdict.from_host and _queue_length(exchange))
    )


def ordinary_bytes(exchange: Answered, head: ResponseHead, length: Bytes | None, data: bytes) -> bytes:
    """The prepared head with length and request id, and the part of the body that came with it."""
    confine = exchange.accounting.model is not None and exchange.context.policy.confines_pages
    lines, request = (head.prepared or prepare(head))[confine], exchange.request
    framing = b"" if length is None else b"Content-Length: %d\r\n" % length
    if request.verdict.from_host:  # it knows the id, and recognises a head that is always the same
        return b"%b%b\r\n%b" % (lines, framing, data)
    return b"%b%b%b: %b\r\n\r\n%b" % (lines, framing, head.id_header, request.id, data)


def special_response(
    exchange: Answered, head: ResponseHead, length: Bytes | None, is_between_chunks: Callable[[], bool]
) -> tuple[Framer, bytes]:
    """For all other clients: how the body is framed, and the head."""
    context, request = exchange.context, exchange.request
    http10, has_body = request.head.http10, request.head.method != b"HEAD"
    dechunk = http10 and head.body_end is LAST_CHUNK
    closes = dechunk or (http10 and has_body and head.body_end is CLOSE)
    keep_alive = request.keep_alive and not closes and not context.is_draining
    framer = framer_for(
        exchange.client,
        head,
        http10=http10,
        keep_alive=keep_alive,
        has_body=has_body,
        is_between_chunks=is_between_chunks,
    )
    start = response_bytes(
        head,
        length,
        context.policy.cors.lines(request.head),
        dechunk=dechunk,
        close=not keep_alive,
        http10=http10,
        confine=exchange.accounting.model is not None and context.policy.confines_pages,
        ours=_own_lines(exchange, head, is_chunked=isinstance(framer, Rechunk)),
    )
    return framer, start


def _own_lines(exchange: Answered, head: ResponseHead, *, is_chunked: bool) -> list[bytes]:
    request, accounting = exchange.request, exchange.accounting
    lines = lines_about_waiting(accounting.waited_for, accounting.waited_s(request.began))
    if not request.verdict.from_host:
        lines.append(b"%b: %b" % (head.id_header, request.id))
    elif queue_length := _queue_length(exchange):
        lines.append(b"Hotseat-Queue-Length: %d" % queue_length)
    if is_chunked:
        lines.append(b"Transfer-Encoding: chunked")
    return lines


def _queue_length(exchange: Answered) -> int:
    """Lets a forwarding host send its next request elsewhere if there is a queue here; only local models have one."""
    accounting = exchange.accounting
    if accounting.model is None or accounting.ticket is None:
        return 0
    return exchange.context.dispatcher.queue_length(accounting.model)
