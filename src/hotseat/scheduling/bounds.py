"""How many requests may wait: in all, for one model, and of these for one client."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import ClientId
    from hotseat.scheduling.state import ModelState, State

SHARE = 3
"""A client may wait this many times as often as there is room left: alone it has three quarters of a line, and whoever
comes after it always finds some. So one client cannot fill a line of four places or more."""


def reached_bound(state: State, model: ModelState, client: ClientId) -> str | None:
    """What says that no other request of this client may wait, in words."""
    line, name = state.line, model.spec.name
    if bound := _reached(len(line), line.of_client(client), state.catalog.policy.max_queue):
        return f"{bound} already waiting (scheduler.maxQueue)"
    if model.spec.max_queue is None:
        return None
    if bound := _reached(line.count(name), line.of_client(client, name), model.spec.max_queue):
        return f"{bound} already waiting for this model (maxQueue)"
    return None


def _reached(waiting: int, own: int, most: int) -> str | None:
    if waiting >= most:
        return "1 request is" if waiting == 1 else f"{waiting} requests are"
    return f"{own} requests from this client are" if own >= SHARE * (most - waiting) else None
