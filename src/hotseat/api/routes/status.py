"""What waits, and why; and whether hotseat is ready for requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import ShuttingDown
from hotseat.fleet.view import FleetConnection
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import failing_loops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.view import ModelView, TicketView, View
    from hotseat.settings import Readiness

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

STUCK_S = 50.0
"""After `unloadTimeout`, at whose end a server is killed."""
GUARD_S = 3.0


class Ready(Result):
    fleet: Annotated[
        FleetConnection | None,
        Field(description="Missing if this host is not in a fleet. A `disconnected` host still serves requests."),
    ] = None


class Ticket(Schema):
    """A waiting request."""

    ticket: int
    model: str
    client: str
    waited_s: float
    why: str
    expected_s: Annotated[float | None, Field(description="Estimated seconds until it is served; null: not known.")]
    at_most_s: Annotated[
        float | None,
        Field(description="Upper bound in seconds, if loads and requests take no longer than before."),
    ]


class Queue(Schema):
    waiting: list[Ticket]
    oldest_s: float


@router.get("/queue", summary="Waiting requests and their reasons, oldest first", response_model=Queue)
async def queue(deps: Deps) -> Listing:
    view = deps.dispatcher.views.current()
    waiting = rows(ticket(view, each) for each in view.queue)
    return Listing(page(Queue(waiting=[], oldest_s=oldest_s(view)), waiting=waiting))


@router.get(
    "/ready",
    summary="Is hotseat ready for requests?",
    response_model_exclude_none=True,
    responses={
        503: {
            "model": Failure,
            "description": "It is shutting down, a request has waited too long, a server or the guard is stuck, or a "
            "background loop fails again and again.",
        }
    },
)
async def ready(deps: Deps) -> Ready:
    if deps.is_closing():
        raise ShuttingDown("hotseat is shutting down; use another instance")
    view, limits = deps.dispatcher.views.current(), deps.settings().readiness
    if problem := unready(view, deps.dispatcher.catalog, limits, deps.silent(), deps.guard_silent_s()):
        raise ShuttingDown(problem)
    if failing := failing_loops():
        raise ShuttingDown(f'the background loop "{failing[0]}" fails again and again; hotseat\'s log says why')
    fleet_admin = deps.fleet()
    if fleet_admin is None:
        return Ready(message="hotseat is ready")
    # Only the store is unreachable. This host still works, so load balancers should keep using it.
    said = (
        "hotseat is ready, but disconnected from the fleet"
        if fleet_admin.connection is FleetConnection.DISCONNECTED
        else "hotseat is ready"
    )
    return Ready(message=said, fleet=fleet_admin.connection)


def left_s(at: Instant | None, view: View) -> float | None:
    return None if at is None else round(max(0.0, at - view.now), 3)


def ticket(view: View, waiting: TicketView) -> Ticket:
    return Ticket(
        ticket=waiting.ticket,
        model=waiting.model,
        client=waiting.client,
        waited_s=round(view.now - waiting.since, 3),
        why=waiting.why,
        expected_s=None if waiting.expected_in_s is None else round(waiting.expected_in_s, 3),
        at_most_s=left_s(waiting.not_later_than, view),
    )


def unready(
    view: View, catalog: Catalog, limits: Readiness, silent: Mapping[ModelName, Seconds], guard_silent_s: Seconds
) -> str | None:
    """Why this host should get no requests."""
    if guard_silent_s >= GUARD_S:
        return f"the guard process, which starts and stops models, has not answered for {guard_silent_s:.0f} s"
    if silent:
        model, seconds = next(iter(silent.items()))
        return f"{model} is unresponsive: its server has not responded for {seconds:.0f} s"
    oldest = oldest_s(view)
    if oldest > limits.oldest_wait_s:
        return f"a request has waited for {oldest:.0f} s (ready.oldestWait); GET /hotseat/queue says why"
    stuck = (_stuck(seen, view.now, catalog.models.get(seen.name)) for seen in view.models)
    return next(filter(None, stuck), None)


def _stuck(seen: ModelView, now: Instant, spec: ModelSpec | None) -> str | None:
    """A server that exists long after it was killed, maybe in a driver call, keeps its memory."""
    killed_after_s = spec.unload_timeout_s if spec else 0.0
    if seen.phase is not Phase.UNLOADING or now - seen.since <= killed_after_s + STUCK_S:
        return None
    return f"{seen.name} has been stopping for {now - seen.since:.0f} s; its process does not exit"


def oldest_s(view: View) -> float:
    return round(view.now - view.queue[0].since, 3) if view.queue else 0.0
