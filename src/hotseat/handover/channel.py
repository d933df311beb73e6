"""What the old and the new process tell each other, over a private socket pair, in the form of messages to the guard.

About requests, events go to the new process, and commands come back.
"""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import asdict

from hotseat.errors import HotseatError
from hotseat.identifiers import Address, ModelName, Place, TicketId, Upstream
from hotseat.model_servers.guard_messages import Messages
from hotseat.scheduling.commands import Confirm, Cut, Grant, Refuse
from hotseat.scheduling.events import (
    KeepAliveChanged,
    LoadRequested,
    OverridesChanged,
    ProfileChanged,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
    YieldEnded,
    YieldRequested,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from hotseat.identifiers import Seconds
    from hotseat.model_servers import guard_messages

FromOperators: TypeAlias = YieldRequested | YieldEnded | OverridesChanged | ProfileChanged
AboutRequests: TypeAlias = (
    RequestArrived | RequestLeft | LoadRequested | UnloadRequested | KeepAliveChanged | PromptProcessed | FromOperators
)
"""The only events of the old process that concern the new one, which learns of servers from the guard."""
ToRequests: TypeAlias = Grant | Confirm | Refuse | Cut
COMMANDS = frozenset(kind.__name__ for kind in ToRequests.__args__)
EVENTS: Mapping[str, type[AboutRequests]] = {kind.__name__: kind for kind in AboutRequests.__args__}


class Message(NamedTuple):
    kind: str
    facts: dict[str, Any]
    fds: tuple[int, ...] = ()


class Closed(Exception):
    """The other process has closed its end, or has ended."""


class Channel:
    """One end of the socket pair. Whoever receives a message owns its descriptors."""

    def __init__(self, sock: socket.socket) -> None:
        self._messages = Messages(sock)
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[Message | None] = asyncio.Queue()
        self._loop.add_reader(sock, self._receive)
        self._socket = sock
        self.is_closed = False

    def send(self, kind: str, /, *fds: int, **facts: Any) -> None:
        """The receiver gets copies of the descriptors."""
        if not self.is_closed:
            self._messages.send(content(kind, facts), map(os.dup, fds))
            self._send_rest()

    async def receive(self) -> Message:
        """Raises Closed after the last message."""
        message = await self._received.get()
        if message is None:
            self._received.put_nowait(None)
            raise Closed
        return message

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._messages.close()
        self._received.put_nowait(None)

    def _receive(self) -> None:
        for message in self._messages.receive():
            self._received.put_nowait(read(message))
        if self._messages.is_over:
            self.close()

    def _send_rest(self) -> None:
        self._messages.flush()
        if self._messages.has_unsent:
            self._loop.add_writer(self._socket, self._send_rest)
        else:
            self._loop.remove_writer(self._socket)


def receive_first(sock: socket.socket, within: Seconds) -> Message:
    """The first message, before an event loop runs; OSError if there is none in time."""
    messages = Messages(sock)
    while not messages.is_over and select.select([sock], [], [], within)[0]:
        if found := messages.receive():
            return read(found[0])
    raise ConnectionResetError("the old process has ended, or says nothing")


def content(kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """With the number of descriptors even if it is 0: the first programs with this protocol read no other messages."""
    return {"kind": kind, "fds": 0, **facts}


def read(message: guard_messages.Message) -> Message:
    facts = {name: value for name, value in message.content.items() if name not in ("kind", "fds")}
    return Message(str(message.content.get("kind")), facts, tuple(message.fds))


def event_facts(event: AboutRequests) -> dict[str, Any]:
    facts = asdict(event)
    return {**facts, "places": sorted(event.places)} if isinstance(event, YieldRequested) else facts


def event_in(message: Message) -> AboutRequests | None:
    """None: a kind that only another version knows."""
    kind = EVENTS.get(message.kind)
    if kind is None:
        return None
    facts = {name: value for name, value in message.facts.items() if name in kind.__struct_fields__}
    if kind is YieldRequested:
        facts["places"] = frozenset(Place(*each) for each in facts["places"])
    return kind(**facts)


def command_in(message: Message) -> ToRequests | None:
    """None: a kind that only another version knows."""
    facts = message.facts
    if message.kind not in COMMANDS:
        return None
    ticket, model, reason = TicketId(facts["ticket"]), ModelName(facts.get("model", "")), facts.get("reason", "")
    match message.kind:
        case "Grant":
            return Grant(ticket, model, upstream_in(facts["upstream"]), reason)
        case "Confirm":
            return Confirm(ticket, model, reason)
        case "Refuse":
            return Refuse(ticket, error_in(facts["error"]), reason)
        case "Cut":
            return Cut(ticket, model, reason, error_in(facts["error"]))
    return None


def upstream_facts(upstream: Upstream) -> dict[str, Any]:
    facts = {"pid": upstream.pid, "listener": upstream.listener, "api_key": upstream.api_key}
    return {"address": list(upstream.address), **facts}


def upstream_in(facts: Mapping[str, Any]) -> Upstream:
    return Upstream(Address(*facts["address"]), facts["pid"], facts.get("listener"), facts.get("api_key", ""))


def error_facts(error: HotseatError) -> dict[str, Any]:
    return {"name": type(error).__name__, "message": error.message, "retry_after": error.retry_after}


def error_in(facts: Mapping[str, Any]) -> HotseatError:
    """Of the same class, if this version has it. The server's output stays in the new process."""
    kind = ERRORS.get(facts["name"], HotseatError)
    return kind(facts["message"], retry_after=facts.get("retry_after"))


def _all_errors(kind: type[HotseatError] = HotseatError) -> Iterator[type[HotseatError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _all_errors(each)


ERRORS: Mapping[str, type[HotseatError]] = {kind.__name__: kind for kind in _all_errors()}
