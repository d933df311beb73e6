"""Our own responses to requests that are not forwarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.error_bodies import Dialect, answer
from hotseat.relay.access.host_requests import refusal_for_host
from hotseat.relay.routing.paths import dialect_for

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.relay.context import Context
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
    if head is None:
        context.activity.refused(error.code)
        return Reply(answer(error, Dialect.TEXT, request_id=context.new_id(), close=not keep_alive), keep_alive)
    error = refusal_for_host(error, head)
    context.activity.refused(error.code)
    request_id = request_id or head.request_id or context.new_id()
    dialect, is_head = dialect_for(head, context.policy.error_format), head.method == b"HEAD"
    told = answer(error, dialect, request_id=request_id, close=not keep_alive, head_only=is_head)
    return Reply(context.policy.cors.readable(told, head), keep_alive)
