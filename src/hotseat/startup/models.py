"""The parts that run models: supervisor, memory, scheduler and dispatcher."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.config.units import address_text
from hotseat.dispatch.default_model import DefaultModelLoader, Preload
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.dispatch.reports import UnmetLimits
from hotseat.memory.manager import MemoryManager, card_names
from hotseat.memory.ram import Ram
from hotseat.model_files.of_command import FileLooks
from hotseat.model_servers import supervisor as model_servers
from hotseat.model_servers.conversations.manager import open_conversations
from hotseat.model_servers.guard_grace import GuardGrace, connect
from hotseat.model_servers.guard_link import CannotTake
from hotseat.model_servers.output import Outputs, StdoutCopy
from hotseat.scheduling.events import CatalogChanged, UpstreamExited, UpstreamFailed
from hotseat.scheduling.scheduler import Scheduler
from hotseat.state.learned_store import LEARNED, LearnedStore, ModelStatsStore
from hotseat.state.overrides_store import OVERRIDES, OverridesStore
from hotseat.state.state_file import StateFile, conversations_directory, state_directory
from hotseat.telemetry import logs
from hotseat.telemetry.logs import server_line
from hotseat.threads import in_thread

if TYPE_CHECKING:
    import socket
    from contextlib import AsyncExitStack
    from pathlib import Path

    from hotseat.config.load import Loaded
    from hotseat.config.reload import ActiveConfig
    from hotseat.identifiers import ModelName
    from hotseat.memory.manager import MemoryWatch
    from hotseat.model_servers.supervisor import Supervisor
    from hotseat.scheduling.events import Event
    from hotseat.settings import Settings
    from hotseat.startup.shared import Shared
    from hotseat.tasks import Tasks
    from hotseat.telemetry.stdout_writer import StdoutWriter


log = logging.getLogger(__name__)


class ModelParts(Struct, frozen=True):
    supervisor: Supervisor
    memory: MemoryManager
    memory_watch: MemoryWatch
    scheduler: Scheduler
    journal: Journal
    dispatcher: Dispatcher
    overrides: OverridesStore
    unmet_limits: UnmetLimits
    model_stats_store: ModelStatsStore
    preload: Preload


async def open_supervisor(stack: AsyncExitStack, shared: Shared) -> Supervisor:
    """With the servers of a hotseat that was killed, if its guard still keeps them; see restarting.py."""
    orphans = None if shared.start.predecessor else connect(grace_socket(shared.active.settings))
    folder = conversations_directory(os.environ)
    keeping = open_conversations(folder, lambda: shared.active.settings.conversations.disk)
    opening = model_servers.open_supervisor(
        os.environ,
        shared.active.loaded.withheld_env,
        Outputs(OutputCopy(shared.active, shared.start.writer)),
        available=Ram().available_for_cache,
        records=state_directory(os.environ) / "processes",
        card_names=card_names,
        conversations=await stack.enter_async_context(keeping),
        grace=grace_of(shared.active.settings),
        starts_guard=not (orphans or shared.start.predecessor),
        makes_keys=lambda: shared.active.settings.access.is_restricted,
        fixed_ports=lambda: shared.active.loaded.catalog.fixed_ports,
    )
    supervisor = await stack.enter_async_context(opening)
    if orphans:
        await take_orphans(supervisor, orphans)
    return supervisor


async def take_orphans(supervisor: Supervisor, connection: socket.socket) -> None:
    try:
        await supervisor.take(connection)
    except CannotTake as refusal:  # another hotseat uses the same state directory and address
        log.warning("the model servers of another process are not adopted reason=%r", str(refusal))
        supervisor.guard.start()


def grace_of(settings: Settings) -> GuardGrace | None:
    return GuardGrace(settings.crash_grace_s, grace_socket(settings)) if settings.crash_grace_s else None


def grace_socket(settings: Settings) -> Path:
    """Where the guard of a killed hotseat with the same state directory and address waits for the next one."""
    return state_directory(os.environ) / "guard" / address_text(settings.listen)


async def open_models(stack: AsyncExitStack, shared: Shared, supervisor: Supervisor) -> ModelParts:
    learned, journal = LearnedStore(state_directory(os.environ) / LEARNED), Journal()
    memory = MemoryManager(learned, supervisor.pids, lambda: shared.active.settings)
    overrides = OverridesStore(StateFile(state_directory(os.environ) / OVERRIDES))
    loaded = shared.active.loaded = await in_thread("estimate", with_figures, shared.active.loaded, memory)
    scheduler = Scheduler(overrides.applied_to(loaded.catalog), loaded.measured)
    journal.listen(lambda entry: None if supervisor.guard.is_handed_over else overrides.watch(entry))
    stats_store = keep_model_stats(stack, supervisor, learned, scheduler, journal)
    dispatcher = Dispatcher(scheduler, memory.launcher(supervisor, scheduler), journal, look=FileLooks().look)
    memory_watch, unmet_limits = memory.watch(dispatcher, shared.tasks), UnmetLimits(scheduler)
    preload = Preload(dispatcher, () if shared.start.predecessor else loaded.catalog.preload)
    parts = ModelParts(
        supervisor, memory, memory_watch, scheduler, journal, dispatcher, overrides, unmet_limits, stats_store, preload
    )
    watch_models(parts, shared.tasks)
    return parts


def with_figures(loaded: Loaded, memory: MemoryManager) -> Loaded:
    """The same with the models' memory figures. Reads files: not for the event loop."""
    catalog = memory.fill(loaded.catalog)
    return replace(loaded, catalog=catalog, measured=memory.measured(catalog))


def keep_model_stats(
    stack: AsyncExitStack, supervisor: Supervisor, learned: LearnedStore, scheduler: Scheduler, journal: Journal
) -> ModelStatsStore:
    """Restore what the last run measured, and save it at the end, unless another process has learned more by then."""
    store = ModelStatsStore(learned.section("model_stats"), scheduler.model_stats)
    store.recall()
    journal.listen(store.watch)
    stack.callback(lambda: None if supervisor.guard.is_handed_over else store.save())
    return store


def watch_models(parts: ModelParts, tasks: Tasks) -> None:
    parts.journal.listen(parts.unmet_limits.watch)
    parts.journal.listen(lambda entry: parts.memory_watch.on_event(entry.event))
    parts.journal.listen(DefaultModelLoader(parts.dispatcher, tasks).watch)
    parts.journal.listen(lambda entry: forget_given_up(parts, entry.event))
    parts.journal.listen(lambda entry: forget_removed(parts, entry.event))


def forget_given_up(parts: ModelParts, event: Event) -> None:
    """Remove what was saved of a model whose conversations are not saved any more; its server's exit decides that."""
    if not isinstance(event, UpstreamExited) or event.model not in parts.dispatcher.catalog.models:
        return
    known = parts.dispatcher.views.of(event.model).conversations
    if known and known.problem:
        parts.supervisor.conversations.forget([event.model])


def forget_removed(parts: ModelParts, event: Event) -> None:
    """A model that was removed may have a server for a while: it finishes its requests."""
    if isinstance(event, CatalogChanged | UpstreamExited | UpstreamFailed):
        parts.supervisor.forget_others(parts.dispatcher.catalog.models)


class OutputCopy:
    """Copies the output of model servers to standard output if the configuration says so."""

    def __init__(self, active: ActiveConfig, writer: StdoutWriter) -> None:
        self._active = active
        self._stdout_copy = StdoutCopy(writer.put_copy, self._formatted)

    def __call__(self, model: ModelName, chunk: bytes) -> None:
        if self._active.settings.logging.to_stdout in ("upstream", "both"):
            self._stdout_copy(model, chunk)

    def _formatted(self, model: ModelName, line: str) -> str:
        return line if logs.is_text(self._active.settings.logging) else server_line(model, line, time.time())
