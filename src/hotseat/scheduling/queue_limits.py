"""Limits of the queue: all requests, and each client's share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.queue import RequestKind

if TYPE_CHECKING:
    from hotseat.identifiers import ClientId
    from hotseat.scheduling.state import State

SHARE = 3
"""A client may have at most this many times as many waiting requests as the queue has free places. One client can fill
three quarters of a queue, never a whole queue of four or more places."""


def reached_limit(state: State, client: ClientId, kind: RequestKind) -> str | None:
    """Return the limit that refuses another request of this client, as text. Only loads keep operators' loads out."""
    queue, own = state.queue, state.queue.of_client(client)
    waiting = own if kind is RequestKind.LOAD else len(queue)
    bound = _reached(waiting, own, state.catalog.policy.max_queue)
    return f"{bound} already waiting (scheduler.maxQueue)" if bound else None


def _reached(waiting: int, own: int, most: int) -> str | None:
    if waiting >= most:
        return "1 request is" if waiting == 1 else f"{waiting} requests are"
    return f"{own} requests from this client are" if own >= SHARE * (most - waiting) else None
