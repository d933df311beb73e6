"""What a restart hands over to the new process, and what it takes from this one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from hotseat.handover.restarts import Description, Restarts
from hotseat.handover.successor import Listening
from hotseat.model_servers.descendants import start_of
from hotseat.scheduling.handover_json import to_json

if TYPE_CHECKING:
    from hotseat.config.reload import Reloader
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
