"""The scheduler of the old process after the handover: the new process decides about its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.handover.request_messages import AboutRequests, FromOperators, event_facts
from hotseat.scheduling.commands import Confirm, Refuse
from hotseat.scheduling.events import FleetModelsChanged, LoadRequested, RequestArrived, RequestLeft, UnloadRequested
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.transitions import Transitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.errors import HotseatError
    from hotseat.handover.channel import Channel
    from hotseat.handover.request_messages import ToRequests
    from hotseat.identifiers import ClientId, Instant, ModelName, TicketId, Upstream
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.state import State


class RemoteScheduler(Scheduler):
    """Decides nothing: it sends what concerns requests to the new process, whose commands arrive later.

    Questions are answered as of the handover, but for requests of this process, and what operators and other hosts
    change here.
    """

    def __init__(self, scheduler: Scheduler, channel: Channel) -> None:
        self._state = scheduler._state
        self._channel = channel
        self._waiting = {**self._state.queue.model_of, **dict(unload_tickets(self._state))}
        self._refusal: HotseatError | None = None

    def handle(self, event: Event, now: Instant) -> list[Command]:
        if isinstance(event, RequestArrived | LoadRequested | UnloadRequested):
            if self._refusal:
                return [Refuse(event.ticket, self._refusal, "the new process has ended")]
            self._waiting[event.ticket] = event.model
        elif isinstance(event, RequestLeft):
            self._waiting.pop(event.ticket, None)
        elif isinstance(event, FromOperators | FleetModelsChanged):
            self._note(Transitions(self._state, now), event)
        # The new process looks for programs with precedence itself.
        if isinstance(event, AboutRequests) and not getattr(event, "for_program", False):
            self._channel.send(type(event).__name__, **event_facts(event))
        return []

    def note(self, command: ToRequests) -> None:
        """The new process has decided about a request. After a refusal or a confirmation nobody here gives it back."""
        self._waiting.pop(command.ticket, None)
        if isinstance(command, Refuse | Confirm):
            self._channel.send(RequestLeft.__name__, **event_facts(RequestLeft(command.ticket)))

    def refuse_all(self, error: HotseatError) -> list[Command]:
        """The new process has ended."""
        self._refusal = error
        return [Refuse(ticket, error, "the new process has ended") for ticket in self._waiting]

    def waits_for(self, ticket: TicketId) -> ModelName | None:
        return self._waiting.get(ticket)

    def ready_server(self, model: ModelName) -> Upstream | None:
        """Without a lease nobody knows here whether it still runs: its port may be that of another model."""
        return None

    def lease_at_once(
        self, ticket: TicketId, name: ModelName, client: ClientId, takes_slot: bool, now: Instant
    ) -> Upstream | None:
        return None

    def leave_quietly(self, ticket: TicketId, is_answered: bool, now: Instant) -> list[Command] | None:
        return None

    def wants_prompt(self, ticket: TicketId, tokens: int) -> bool:
        return True


def unload_tickets(state: State) -> Iterator[tuple[TicketId, ModelName]]:
    """Of operators who wait for an unload, begun or postponed."""
    for model in state.active.values():
        yield from ((ticket, model.name) for ticket in model.unload_tickets)
    for event in state.postponed:
        yield event.ticket, event.model
