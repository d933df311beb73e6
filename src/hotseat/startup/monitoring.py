"""Metrics, the record of requests, traces, and the tasks that watch the process itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.activity.recent import Activity
from hotseat.activity.store import ACTIVITY_FILE, ActivityStore, StoreWriter
from hotseat.activity.usage_store import USAGE_FILE, UsageCounter, UsageStore, UsageWriter
from hotseat.startup.tracing import open_tracing
from hotseat.state.state_file import state_directory
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.shortages import Lag, watch_descriptors

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from hotseat.startup.models import ModelParts
    from hotseat.startup.shared import Shared
    from hotseat.tracing.tracer import Tracer


class Monitoring(Struct, frozen=True):
    lag: Lag
    metrics: Metrics
    activity: Activity
    store_writer: StoreWriter
    usage: UsageCounter
    usage_writer: UsageWriter
    tracer: Tracer | None
    """None: requests are not traced."""


def open_monitoring(stack: AsyncExitStack, shared: Shared, models: ModelParts) -> Monitoring:
    metrics, usage = Metrics(), UsageCounter()
    models.journal.listen(metrics.watch)
    activity = Activity(metrics)
    folder = state_directory(os.environ)
    store = ActivityStore(folder / ACTIVITY_FILE)
    store_writer = StoreWriter(activity, store, lambda: shared.active.settings.activity_keep_s)
    usage_writer = UsageWriter(usage, UsageStore(folder / USAGE_FILE))
    stack.push_async_callback(store_writer.close)
    stack.push_async_callback(usage_writer.close)
    tracer = open_tracing(stack, os.environ, models.journal, shared.tasks)
    return Monitoring(Lag(), metrics, activity, store_writer, usage, usage_writer, tracer)


def start_monitors(shared: Shared, monitoring: Monitoring) -> None:
    tasks = shared.tasks
    tasks.start(monitoring.lag.watch(), "loop lag")
    tasks.start(monitoring.store_writer.watch(), "activity")
    tasks.start(monitoring.usage_writer.watch(), "usage")
    tasks.start(watch_descriptors(), "file descriptors")
