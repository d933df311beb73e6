"""Our own responses to requests that are not forwarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.error_bodies import Dialect, answer
from hotseat.errors import Busy
from hotseat.relay.access.host_requests import refusal_for_host
from hotseat.relay.routing.dialect import dialect_for

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.connection_count import Excess
    from hotseat.relay.http.request_head import RequestHead


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response; sent in order like any other."""

    data: bytes
    keep_alive: bool


def refusal(
    context: Context, error: HotseatError, head: RequestHead | None, *, keep_alive: bool, request_id: bytes = b""
) -> Reply:
    """In the error format that the client expects, as far as its head can be read."""
    error = error if head is None else refusal_for_host(error, head)
    context.activity.refused(error.code)
    if head is None:
        return Reply(answer(error, Dialect.TEXT, request_id=context.new_id(), close=not keep_alive), keep_alive)
    policy = context.policy
    dialect = dialect_for(head, policy.error_format)
    request_id = request_id or head.request_id or context.new_id()
    is_head = head.method == b"HEAD"
    told = answer(error, dialect, request_id=request_id, close=not keep_alive, head_only=is_head)
    return Reply(policy.cors.readable(told, head), keep_alive)


def too_many_connections(context: Context, excess: Excess) -> Reply:
    error = Busy(f"too many connections ({excess.limit}). Try again in a moment.", retry_after=1)
    return refusal(context, error, None, keep_alive=False)
