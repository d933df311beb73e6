"""The requests of the old process, in the new one: each is the holder of a ticket here, like any connection."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.handover.channel import Closed
from hotseat.handover.request_messages import error_facts, event_in, upstream_facts
from hotseat.handover.streams import STREAMS
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import (
    LoadRequested,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
)
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.errors import HotseatError
    from hotseat.handover.channel import Channel, Message
    from hotseat.handover.request_messages import AboutRequests
    from hotseat.identifiers import Seconds, TicketId, Upstream

log = logging.getLogger(__name__)

LEFT_S: Seconds = 10.0
"""It usually takes milliseconds."""


class OldRequest:
    """Tells the old process what the scheduler decides about one of its requests."""

    def __init__(self, channel: Channel, ticket: TicketId) -> None:
        self._channel, self.ticket = channel, ticket

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self._channel.send("Grant", ticket=self.ticket, upstream=upstream_facts(upstream), reason=reason)

    def confirmed(self) -> None:
        self._channel.send("Confirm", ticket=self.ticket)

    def refused(self, error: HotseatError) -> None:
        self._channel.send("Refuse", ticket=self.ticket, error=error_facts(error))

    def cut(self, error: HotseatError) -> None:
        self._channel.send("Cut", ticket=self.ticket, error=error_facts(error))


class OldRequests:
    """All requests of the old process."""

    def __init__(
        self, dispatcher: Dispatcher, channel: Channel, note_stream: Callable[[ModelName], None] = lambda _: None
    ) -> None:
        """`note_stream` is called when the server of a model has sent something to the old process."""
        self._dispatcher, self._channel, self._note_stream = dispatcher, channel, note_stream
        self._tickets: dict[TicketId, TicketId] = {}
        """Numbers of the old process, and the numbers here."""
        self._has_left = asyncio.Event()

    async def left(self, within: Seconds = LEFT_S) -> None:
        """Return when the old process is not in the fleet any more and systemd follows this one, or when it hangs.

        The guard obeys this process alone, so it may go on. The old one is not killed: whoever started hotseat may
        follow it, and would end this one too.
        """
        try:
            await asyncio.wait_for(self._has_left.wait(), within)
        except TimeoutError:
            log.error("the previous process does not leave and this one goes on without waiting within_s=%g", within)

    def we_listen(self) -> None:
        """The old process need not accept connections any more."""
        self._channel.send("listening")

    def keep(self, *tickets: TicketId) -> None:
        """Requests that were handed over keep their numbers: our own are numbered from above."""
        for ticket in tickets:
            self._tickets[ticket] = ticket
            self._dispatcher.tickets.enter_as(ticket, OldRequest(self._channel, ticket))

    async def serve(self) -> None:
        """Return when the old process has ended; what it still held is given back."""
        try:
            while True:
                message = await self._channel.receive()
                if message.kind == "left":
                    self._has_left.set()
                else:
                    attempt(self._note, message)
        except Closed:
            log.info("the previous process has ended requests=%d", len(self._tickets))
        finally:
            self._has_left.set()
            for ticket in [*self._tickets.values()]:
                self._dispatcher.leave(ticket)

    def _note(self, message: Message) -> None:
        if message.kind == STREAMS:
            self._note_stream(ModelName(message.facts["model"]))
        elif (event := event_in(message)) is not None:
            self._tell(event)

    def _tell(self, event: AboutRequests) -> None:
        match event:
            case RequestArrived() | LoadRequested() | UnloadRequested():
                ours = self._dispatcher.tickets.enter(OldRequest(self._channel, event.ticket))
                self._tickets[event.ticket] = ours  # a later request of the old process gets a number of ours
                self._dispatcher.tell(replace(event, ticket=ours))
            case RequestLeft():
                if (ticket := self._tickets.pop(event.ticket, None)) is not None:
                    self._dispatcher.leave(ticket, event.is_answered)
            case PromptProcessed():
                if (ticket := self._tickets.get(event.ticket)) is not None:
                    self._dispatcher.prompt_processed(replace(event, ticket=ticket))
            case _:
                self._dispatcher.tell(event)
