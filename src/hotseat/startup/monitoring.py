"""Metrics, the record of requests, traces, and the tasks that watch the process itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.activity.recent import Activity
from hotseat.activity.store import ActivityStore, StoreWriter
from hotseat.activity.usage_counter import UsageCounter
from hotseat.activity.usage_store import USAGE_FILE, UsageStore, UsageWriter
from hotseat.startup.tracing import open_tracing
from hotseat.state.learned_store import state_directory
from hotseat.telemetry.conversation_page import ConversationPage
from hotseat.telemetry.descriptors import watch_descriptors
from hotseat.telemetry.device_page import DevicePage
from hotseat.telemetry.fleet_page import FleetPage
from hotseat.telemetry.key_page import KeyPage
from hotseat.telemetry.log_page import LogPage
from hotseat.telemetry.loop_lag import Lag
from hotseat.telemetry.loop_page import LoopPage
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.trace_page import TracePage

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.memory.manager import MemoryManager
    from hotseat.scheduling.view import View
    from hotseat.startup.models import ModelParts
    from hotseat.startup.shared import Shared
    from hotseat.tracing.tracer import Tracer

MOST_LISTED = 200
"""The most models of which the metrics list all: each is 33 lines of every scrape, and 10,000 would take seconds."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    lag: Lag
    metrics: Metrics
    activity: Activity
    store_writer: StoreWriter
    usage: UsageCounter
    usage_writer: UsageWriter
    tracer: Tracer | None
    """None: requests are not traced."""


def open_monitoring(stack: AsyncExitStack, shared: Shared, models: ModelParts) -> Monitoring:
    lag = Lag()
    metrics = Metrics(lambda: shown_in_metrics(models.dispatcher), lag.worst_since_asked, lambda: store_writer.lost)
    usage = UsageCounter()
    add_pages(metrics, shared, usage)
    kept = models.supervisor.conversations.kept
    metrics.include(ConversationPage(lambda: shown_in_metrics(models.dispatcher), kept))
    models.journal.listen(metrics.watch)
    activity = Activity(metrics)
    folder = state_directory(os.environ)
    store = ActivityStore(folder / "activity.sqlite3")
    store_writer = StoreWriter(activity, store, lambda: shared.active.settings.activity_keep_s)
    usage_writer = UsageWriter(usage, UsageStore(folder / USAGE_FILE))
    stack.push_async_callback(store_writer.close)
    stack.push_async_callback(usage_writer.close)
    tracer = open_tracing(stack, os.environ, models.journal, shared.tasks)
    metrics.include(TracePage(lambda: 0 if tracer is None else tracer.dropped))
    return Monitoring(lag, metrics, activity, store_writer, usage, usage_writer, tracer)


async def metrics_page(metrics: Metrics, memory: MemoryManager) -> bytes:
    """GET /metrics, with what the drivers of the GPUs report now."""
    return metrics.render(DevicePage(await memory.sensors()))


def shown_in_metrics(dispatcher: Dispatcher) -> View:
    """All models, so that their counters start at zero; of very many only those that are in use."""
    return dispatcher.view_of_all() if len(dispatcher.catalog.models) <= MOST_LISTED else dispatcher.view()


def add_pages(metrics: Metrics, shared: Shared, usage: UsageCounter) -> None:
    metrics.include(KeyPage(shared.accounts.all, usage.by_key))
    metrics.include(LoopPage())
    metrics.include(LogPage(lambda: shared.start.writer.lines_dropped))
    metrics.include(FleetPage(shared.fleet.view))


def start_monitors(shared: Shared, monitoring: Monitoring) -> None:
    tasks = shared.tasks
    tasks.start(monitoring.lag.watch(), "loop lag")
    tasks.start(monitoring.store_writer.watch(), "activity")
    tasks.start(monitoring.usage_writer.watch(), "usage")
    tasks.start(watch_descriptors(), "file descriptors")
