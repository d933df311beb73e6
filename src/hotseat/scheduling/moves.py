"""The only hands that change the state: each move keeps the books in order and notes the command that goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.commands import Cause, Command, Confirm, Cut, Grant, Refuse, StartUpstream, StopUpstream
from hotseat.scheduling.lifecycle import Move, Phase, after
from hotseat.scheduling.line import Ticket, Wish
from hotseat.scheduling.state import LONG_AGO, takes_slot

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.scheduling.state import ModelState, State
    from hotseat.terms import Instant, ModelName, Seconds, TicketId, Upstream

FIRST_REST_S: Seconds = 1.0
LONGEST_REST_S: Seconds = 60.0
STABLE_S: Seconds = 60.0
"""A server that lived this long has shown that it can: its earlier failures are forgotten."""


def rest_s(failures: int) -> Seconds:
    """The first restart is immediate, then the wait doubles."""
    return 0.0 if failures < 2 else min(LONGEST_REST_S, FIRST_REST_S * 2 ** (failures - 2))


class Moves:
    """The moves of one call of `handle`, and the commands they ask for, in order."""

    __slots__ = ("commands", "now", "state")

    def __init__(self, state: State, now: Instant) -> None:
        self.state = state
        self.now = now
        self.commands: list[Command] = []

    # Tickets

    def grant(self, model: ModelState, ticket: Ticket, because: str) -> None:
        """A ticket that may use the model: from here on the model cannot be evicted under it."""
        assert model.upstream is not None
        self.state.line.leave(ticket.id)
        if ticket.wish is Wish.LOAD:
            return self.commands.append(Confirm(ticket.id, model.name, because))
        model.leases[ticket.id] = ticket
        model.slots_used += takes_slot(ticket)
        self.state.leases[ticket.id] = model
        return self.commands.append(Grant(ticket.id, model.name, model.upstream, because))

    def give_back(self, ticket: TicketId) -> ModelState | None:
        """A lease ends; the model it was on, or None if there was none (any more)."""
        model = self.state.leases.pop(ticket, None)
        if model is None:
            return None
        model.slots_used -= takes_slot(model.leases.pop(ticket))
        if not model.leases:
            model.idle_since = self.now
        return model

    def refuse(self, ticket: TicketId, error: HotseatError, because: str) -> None:
        self.state.line.leave(ticket)
        self.commands.append(Refuse(ticket, error, because))

    def refuse_all(self, name: ModelName, error: HotseatError, because: str) -> None:
        for ticket in self.state.line.waiting_for(name):
            self.refuse(ticket.id, error, because)

    # Phases

    def start(self, model: ModelState, because: str) -> None:
        self._enter(model, Move.START, because)
        model.spec = self.state.catalog.models[model.name]
        model.launch = self.state.next_launch()
        model.claimed_at = self.state.claim(model.name)
        self.commands.append(StartUpstream(model.name, model.launch, model.spec, because))

    def become_ready(self, model: ModelState, upstream: Upstream) -> None:
        self.state.habits.loaded(model.name, self.now - model.since)
        self._enter(model, Move.BECOME_READY, model.why)
        model.upstream = upstream
        model.ready_at = model.idle_since = self.now

    def dismiss(self, model: ModelState, cause: Cause, because: str) -> None:
        """Let it go: a load is stopped at once, a ready model drains first; one that is leaving goes on leaving."""
        if model.phase is Phase.READY:
            self._forget_failures(model)
            model.cause = cause
            self._enter(model, Move.DRAIN, because)
        elif model.phase is Phase.LOADING:
            model.cause, model.why = cause, because
            self.stop(model)

    def stop(self, model: ModelState) -> None:
        """Nobody uses it any more: tell its server to end."""
        assert model.launch is not None
        assert model.cause is not None
        self._enter(model, Move.STOP, model.why)
        model.upstream = None
        self.commands.append(StopUpstream(model.name, model.launch, model.cause, model.why))

    def cut(self, model: ModelState, because: str) -> None:
        """Its leases have had their time. They still count until they are given back."""
        model.cut_at = None
        for ticket in model.leases:
            self.commands.append(Cut(ticket, model.name, because))

    def exit(self, model: ModelState) -> None:
        self._enter(model, Move.EXIT, model.why)
        self._bury(model)

    def fail(self, model: ModelState, move: Move, error: str) -> None:
        """A start failed or a server died unasked: it rests before it is tried again."""
        if move is Move.CRASH:
            self._forget_failures(model)
        model.failures += 1
        model.last_error = error
        model.rest_until = self.now + rest_s(model.failures)
        self._enter(model, move, error)
        self._bury(model)

    def recover(self, model: ModelState) -> None:
        self._enter(model, Move.RECOVER, model.why)

    def forgive(self, model: ModelState) -> None:
        """An operator's load or a changed configuration starts with a clean slate."""
        model.failures = 0
        if model.phase is Phase.RESTING:
            self.recover(model)

    def _enter(self, model: ModelState, move: Move, because: str) -> None:
        model.phase = after(model.phase, move, f"{model.name}, {model.why}")
        model.since = self.now
        model.why = because
        if model.phase is Phase.COLD:
            del self.state.active[model.name]
        else:
            self.state.active[model.name] = model

    def _forget_failures(self, model: ModelState) -> None:
        if self.now - model.ready_at >= STABLE_S:
            model.failures = 0

    def _bury(self, model: ModelState) -> None:
        """No process is left. Leases on it end when their connections break; they no longer count for the model."""
        model.launch = model.upstream = model.cut_at = model.cause = None
        model.ready_at = model.idle_since = LONG_AGO
        for ticket in model.leases:
            del self.state.leases[ticket]
        model.leases.clear()
        model.slots_used = 0
        for wish in model.unload_wishes:
            self.commands.append(Confirm(wish, model.name, f"{model.name} has stopped"))
        model.unload_wishes.clear()
