"""Draws the immutable View from the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.view import ModelView, TicketView, View

if TYPE_CHECKING:
    from hotseat.scheduling.line import Ticket
    from hotseat.scheduling.state import ModelState, State
    from hotseat.terms import Instant


def picture(state: State, now: Instant) -> View:
    models = tuple(_model(state, model, now) for model in state.models.values())
    line = sorted((_ticket(state, ticket, now) for ticket in state.line), key=lambda view: (view.since, view.ticket))
    return View(now, models, tuple(line))


def _model(state: State, model: ModelState, now: Instant) -> ModelView:
    return ModelView(
        name=model.name,
        phase=model.phase,
        since=model.since,
        upstream=model.upstream,
        in_flight=len(model.leases),
        waiting=state.line.count(model.name),
        why=why(state, model, now),
        failures=model.failures,
        last_error=model.last_error,
        expires_at=None if model.spec.pinned else model.expires_at(),
        last_used=now if model.leases else model.idle_since,
        load_s=state.habits.measured_load_s(model.name),
    )


def _ticket(state: State, ticket: Ticket, now: Instant) -> TicketView:
    model = state.models[ticket.model]
    return TicketView(ticket.id, ticket.model, ticket.client, ticket.since, why(state, model, now))


def why(state: State, model: ModelState, now: Instant) -> str:
    """One sentence: why the model is in its phase, or why those who wait for it wait."""
    match model.phase:
        case Phase.LOADING:
            return f"loading for {now - model.since:.1f} s of about {state.load_s(model.name):.1f} s: {model.why}"
        case Phase.DRAINING:
            return f"{len(model.leases)} requests finish first, then it stops: {model.why}"
        case Phase.UNLOADING:
            return f"stopping for {now - model.since:.1f} s: {model.why}"
        case Phase.READY if state.line.count(model.name):
            return f"all slots are busy: {model.slots_used} requests running"
        case Phase.COLD if state.line.count(model.name):
            return model.waits_because
        case _:
            return model.why
