"""A restart: what the old process hands over, and how the new one takes its servers and requests over.

Also after a crash, when there is nobody to hand them over.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.catalog.spec import NO_OVERRIDES
from hotseat.handover.channel import Closed
from hotseat.handover.predecessor import VERSION, OldRequests
from hotseat.handover.restarts import Description, Restarts
from hotseat.handover.successor import Listening
from hotseat.identifiers import LaunchId, ModelName, TicketId
from hotseat.model_servers.adoption import fingerprint_of
from hotseat.model_servers.conversations.handover import read_handed
from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.guard_link import CannotTake
from hotseat.scheduling.events import (
    CatalogChanged,
    LoadRequested,
    OverridesChanged,
    ProfileChanged,
    RequestArrived,
    ServerAdopted,
    UnloadRequested,
)
from hotseat.scheduling.handover import (
    Handover,
    LevelRecord,
    ProcessSpec,
    ServerRecord,
    UnreadableHandover,
    from_json,
    to_json,
)
from hotseat.scheduling.handover_transitions import adoption
from hotseat.startup.preparation import FAILED, CannotStart
from hotseat.state import overrides_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import Overrides
    from hotseat.config.reload import Reloader
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.handover.channel import Channel, Message
    from hotseat.handover.predecessor import Predecessor, Streams
    from hotseat.identifiers import Address, Upstream
    from hotseat.model_servers.adoption import ServerDescription
    from hotseat.model_servers.conversations.handover import HandedConversations
    from hotseat.model_servers.supervisor import Supervisor
    from hotseat.scheduling.events import Event
    from hotseat.startup.models import ModelParts
    from hotseat.startup.preparation import Prepared
    from hotseat.startup.shared import Shared


def make_restarts(shared: Shared, models: ModelParts, reloader: Reloader) -> Restarts:
    start = shared.start
    return Restarts(
        models.dispatcher,
        models.scheduler,
        models.journal,
        models.supervisor.guard,
        listening_of(start),
        lambda: description(models, shared),
        {**os.environ, **start.systemd.environment()},
        lambda successor: leave(models, shared, successor),
        lambda: reloader.attempts,
    )


async def leave(models: ModelParts, shared: Shared, successor: int) -> None:
    """The new process waits for this: systemd refuses what it says before, and only one may renew the host's lease."""
    models.preload.left.clear()
    shared.start.systemd.follow(successor)
    await shared.fleet.fall_silent()


def listening_of(start: Prepared) -> Listening:
    settings, own = start.loaded.settings, (os.getpid(), start_of(os.getpid()))
    first = own if start.is_known_by_pid else start.predecessor.first if start.predecessor else None
    sockets, ollama_sockets = start.sockets, start.ollama_sockets
    return Listening(sockets, ollama_sockets, settings.listen, settings.ollama_listen, start.by_systemd, first)


def description(models: ModelParts, shared: Shared) -> Description:
    models.model_stats_store.save()
    handover = models.scheduler.handover(asyncio.get_running_loop().time())
    catalog, is_running = models.dispatcher.catalog, models.dispatcher.questions.is_running
    # A reload may have removed one of these, and the preload may not have heard yet that one is ready.
    preload = [name for name in models.preload.left if name in catalog.models and not is_running(name)]
    facts = {
        "scheduler": to_json(handover).decode(),
        "next_ticket": models.dispatcher.tickets.next_number(),
        "journal": models.journal.n,
        "preload": preload,
        "profile": catalog.active_profile,
        "overrides": models.overrides.to_hand_over(catalog),
        "fleet": shared.fleet.to_hand_over(),
        "proofs": shared.host_verifier.checker.to_hand_over() if shared.host_verifier.checker else [],
    }
    if (handed := models.supervisor.conversations.handed()) is None:
        return Description(facts)
    conversations, lock = handed
    return Description({**facts, "conversations": conversations.as_json()}, [lock])


# After a restart


async def take_over(
    predecessor: Predecessor, models: ModelParts, streams: Streams, management: Address
) -> tuple[OldRequests, OldState]:
    """Return when the servers are ours; CannotStart if the old process goes on instead."""
    channel = predecessor.channel()
    channel.send("ready", version=VERSION, management=management.unix_path)
    handed = await received(channel)
    with refusing(channel):
        state = OldState.of(handed)
        await models.supervisor.take(socket.socket(fileno=handed.fds[0]))
    models.model_stats_store.recall()
    models.journal.n = state.journal
    models.dispatcher.tickets.number_from(state.next_ticket)
    recall_memory(models)
    restore_catalog(models.dispatcher, {**models.overrides.kept(), **state.overrides}, state.profile)
    if state.conversations:
        await models.supervisor.conversations.take(state.conversations, state.lock)
    requests = OldRequests(models.dispatcher, channel, streams.note)
    models.preload.left += [name for name in state.preload if name in models.dispatcher.catalog.models]
    adopt(models, state.scheduler, await models.supervisor.taken(), requests)
    await remove_old_conversations(models)
    return requests, state


class OldState(NamedTuple):
    """What the old process says in its last message before the servers are taken."""

    scheduler: Handover
    journal: int
    """The number of its last journal entry."""
    next_ticket: TicketId
    profile: str | None
    must_reload: bool
    """The configuration was reloaded since this process has read it."""
    fleet: Mapping[str, Any]
    """The old process's state as a host of a fleet."""
    proofs: Sequence[str] | None
    """Of other hosts, as it has seen them; None: it does not say."""
    overrides: Mapping[ModelName, Overrides]
    preload: Sequence[ModelName]
    """Models of the startup that it has not loaded yet."""
    conversations: HandedConversations | None
    lock: int
    """Of the folder of conversations, if there is one."""

    @classmethod
    def of(cls, message: Message) -> OldState:
        """All of it is read before the servers are taken: whoever has taken them must not fail any more."""
        facts = message.facts
        conversations = read_handed(facts.get("conversations"))
        return cls(
            from_json(facts["scheduler"].encode()),
            facts["journal"],
            TicketId(facts["next_ticket"]),
            facts["profile"],
            facts.get("must_reload", False),
            facts.get("fleet", {}),
            facts.get("proofs"),
            overrides_store.from_json(facts.get("overrides")),
            [ModelName(name) for name in facts.get("preload", ())],
            conversations,
            message.fds[1] if conversations else -1,
        )


async def received(channel: Channel) -> Message:
    try:
        return await channel.receive()
    except Closed:
        raise CannotStart("the process to be replaced has ended, or goes on", FAILED) from None


@contextmanager
def refusing(channel: Channel) -> Iterator[None]:
    """The old process learns why this one cannot take over."""
    try:
        yield
    except (CannotTake, UnreadableHandover) as problem:
        channel.send("failed", reason=str(problem))
        raise CannotStart(str(problem), FAILED) from None


def recall_memory(models: ModelParts) -> None:
    """What the old process has measured since this one has read it."""
    catalog = models.dispatcher.catalog
    before = models.memory.measured(catalog)
    models.memory.recall()
    if (measured := models.memory.measured(catalog)) != before:
        models.dispatcher.tell(CatalogChanged(catalog, measured))


def restore_catalog(dispatcher: Dispatcher, overrides: Mapping[ModelName, Overrides], profile: str | None) -> None:
    """What operators have set or taken back since this process has read it."""
    for name, spec in dispatcher.catalog.models.items():
        if (wanted := overrides.get(name, NO_OVERRIDES)) != spec.overrides:
            dispatcher.tell(OverridesChanged(name, wanted.pinned, wanted.ttl_s))
    if profile in dispatcher.catalog.profiles:
        dispatcher.tell(ProfileChanged(profile))


def adopt(
    models: ModelParts,
    handover: Handover,
    found: Iterable[ServerDescription],
    requests: OldRequests | None = None,
) -> None:
    """The scheduler goes on where the previous one has stopped. `requests` are those of a process that still runs."""
    upstreams = dict(adopted(models.supervisor, handover, found))
    models.supervisor.limit_stops(models.dispatcher.catalog)
    models.supervisor.end_unadopted()  # before any server is started, which waits for their end
    for event in adoption(handover, models.dispatcher.catalog, upstreams):
        if requests:
            requests.keep(*tickets_of(event))
        if isinstance(event, ServerAdopted):
            models.dispatcher.servers.adopt(event)
        else:
            models.dispatcher.tell(event)


def tickets_of(event: Event) -> Sequence[TicketId]:
    """Of the requests that it is about."""
    match event:
        case RequestArrived() | LoadRequested() | UnloadRequested():
            return [event.ticket]
        case ServerAdopted():
            return [lease.ticket for lease in event.leases]
    return []


def adopted(
    supervisor: Supervisor, handover: Handover, found: Iterable[ServerDescription]
) -> Iterator[tuple[LaunchId, Upstream]]:
    descriptions = {description.launch: description for description in found}
    for server in handover.servers:
        if description := descriptions.get(server.launch):
            ready = supervisor.adopt(server.launch, description, server.spec.as_spec(server.model))
            yield ready.launch, ready.upstream


# After a crash


async def adopt_orphans(models: ModelParts) -> None:
    """Adopt the servers of a process that was killed, as far as the configuration still has them."""
    found = await models.supervisor.taken()
    if found:
        models.supervisor.conversations.take_orphaned(found)
        adopt(models, handover_of(found, models.dispatcher.catalog, time.time()), found)
    models.supervisor.end_unadopted()
    await remove_old_conversations(models)


async def remove_old_conversations(models: ModelParts) -> None:
    """As a reload does with what no server can use any more."""
    catalog = models.dispatcher.catalog
    await models.supervisor.conversations.remove_leftovers(
        {name for name, spec in catalog.models.items() if spec.keeps_conversations}
    )


def handover_of(found: Iterable[ServerDescription], catalog: Catalog, now: float) -> Handover:
    """PURE: what the guard knows about the servers of a process that could hand nothing over."""
    servers = [record for each in found if (record := record_of(each, catalog, now))]
    return Handover(max((server.launch for server in servers), default=LaunchId(0)), tuple(servers))


def record_of(description: ServerDescription, catalog: Catalog, now: float) -> ServerRecord | None:
    """None: its model was removed or changed."""
    spec = catalog.models.get(description.model)
    if spec is None or fingerprint_of(spec) != description.fingerprint:
        return None
    ready_s = max(0.0, now - description.ready_at)
    return ServerRecord(
        description.model,
        description.launch,
        ProcessSpec.of(spec),
        level=LevelRecord(description.sleep) if description.sleep else None,
        ready_s=ready_s,
        phase_s=ready_s,
        slots_reported=description.slots,
        gpus=description.gpus,
        has_answered=True,
    )
