"""The new process's side of a restart: the old process, from which it gets the sockets, the servers and the requests.

The old process goes on with the responses that it has begun. Each of its requests is the holder of a ticket here, like
any connection, and what servers send through it is a sign of life of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.handover.channel import Channel, Closed, content, error_facts, event_in, receive_first, upstream_facts
from hotseat.handover.stand_in import HANDOVER
from hotseat.identifiers import ModelName
from hotseat.model_servers.guard_messages import Messages, close_each
from hotseat.scheduling.events import LoadRequested, PromptProcessed, RequestArrived, RequestLeft, UnloadRequested
from hotseat.tasks import attempt, forever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.errors import HotseatError
    from hotseat.handover.channel import AboutRequests, Message
    from hotseat.identifiers import Seconds, TicketId, Upstream

log = logging.getLogger(__name__)

VERSION = 1
HELLO_S: Seconds = 10.0
LEFT_S: Seconds = 10.0
"""It usually takes milliseconds."""
REPORT_S: Seconds = 2.0
"""Far less than the silence after which a server counts as unresponsive."""
STREAMS = "streams"
"""The kind of the message."""


class Predecessor:
    """The old process, which goes on serving until this one has taken over."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._hello = receive_first(sock, HELLO_S)
        if (version := self._hello.facts["version"]) != VERSION:
            reason = f"the running hotseat hands over in format {version}, and this one reads format {VERSION}"
            self.cannot_start(reason)
            raise ValueError(reason)

    @property
    def first(self) -> tuple[int, int | None] | None:
        """Pid and start time of the process that this one ends with; None: there is none."""
        return self._hello.facts.get("first") and tuple(self._hello.facts["first"])

    def sockets_of_systemd(self) -> list[socket.socket]:
        """Those that systemd has opened are used whatever the configuration says."""
        fds = self._hello.fds[: self._hello.facts["sockets"]]
        return used(fds, is_used=True) if self._hello.facts["by_systemd"] else []

    def sockets_for(self, listen: tuple[str, int]) -> list[socket.socket]:
        """Those that were opened for this address; none if the configuration has changed."""
        fds = self._hello.fds[: self._hello.facts["sockets"]]
        return used(fds, is_used=tuple(self._hello.facts["listen"]) == listen)

    def sockets_for_ollama(self, listen: tuple[str, int] | None) -> list[socket.socket]:
        """Those for Ollama's clients that were opened for this address."""
        fds = self._hello.fds[self._hello.facts["sockets"] :]
        return used(fds, is_used=listen is not None and self._hello.facts["ollama_listen"] == list(listen))

    def cannot_start(self, reason: str) -> None:
        """Tell the old process why it must go on alone."""
        with suppress(OSError):
            Messages(self._socket).send(content("failed", {"reason": reason}))

    def channel(self) -> Channel:
        return Channel(self._socket)


def predecessor_in(environ: MutableMapping[str, str]) -> Predecessor | None:
    """The process that started this one in order to be replaced; None: this is an ordinary start."""
    number = environ.pop(HANDOVER, "")
    return Predecessor(socket.socket(fileno=int(number))) if number else None


def used(fds: Sequence[int], *, is_used: bool) -> list[socket.socket]:
    """Those that are not used are closed: otherwise the kernel would go on to accept connections for nobody."""
    if not is_used:
        close_each(fds)
        return []
    return [socket.socket(fileno=fd) for fd in fds]


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


class Streams:
    """Whether servers send something, also through a process that was replaced: that is a sign of life of them."""

    def __init__(self, own: Callable[[ModelName], Sequence[object]], models: Callable[[], Iterable[ModelName]]) -> None:
        """`own` is the last data from a model's server through this process, by request; `models` may have some."""
        self._own, self._models = own, models
        self._others: dict[ModelName, object] = {}

    def note(self, model: ModelName) -> None:
        """Its server has sent something through the previous process."""
        self._others[model] = object()

    def last_pieces(self, model: ModelName) -> list[object]:
        """While the objects stay the same, nothing arrived, neither here nor in the previous process."""
        other = self._others.get(model)
        return [*self._own(model), *([] if other is None else [other])]

    async def report(self, to: Channel, every_s: Seconds = REPORT_S) -> None:
        """Tell the new process which servers send something. Never returns; cancel it to stop."""
        before: Mapping[ModelName, list[object]] = {}

        async def tell() -> None:
            nonlocal before
            now = {model: self.last_pieces(model) for model in {*self._models(), *self._others}}
            for model, pieces in now.items():
                if not {*map(id, pieces)} <= {*map(id, before.get(model, ()))}:
                    to.send(STREAMS, model=model)
            before = now

        await forever(tell, "report streams", every_s)
