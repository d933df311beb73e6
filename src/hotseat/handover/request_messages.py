"""What the two processes tell each other about requests: events go to the new process, commands come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import asdict

from hotseat.errors import HotseatError
from hotseat.identifiers import Address, ModelName, Place, TicketId, Upstream
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
    from collections.abc import Iterator, Mapping

    from hotseat.handover.channel import Message

FromOperators: TypeAlias = YieldRequested | YieldEnded | OverridesChanged | ProfileChanged
AboutRequests: TypeAlias = (
    RequestArrived | RequestLeft | LoadRequested | UnloadRequested | KeepAliveChanged | PromptProcessed | FromOperators
)
"""The only events of the old process that concern the new one, which learns of servers from the guard."""
ToRequests: TypeAlias = Grant | Confirm | Refuse | Cut

COMMANDS = frozenset(kind.__name__ for kind in ToRequests.__args__)
EVENTS: Mapping[str, type[AboutRequests]] = {kind.__name__: kind for kind in AboutRequests.__args__}


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
