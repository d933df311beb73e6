"""Metrics, the record of requests, traces, and the tasks that watch the process itself.

Requests are traced if the environment names a collector. Whatever is wrong with it, hotseat serves without traces.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.activity.recent import Activity
from hotseat.activity.store import ACTIVITY_FILE, ActivityStore, StoreWriter
from hotseat.activity.usage_store import USAGE_FILE, UsageCounter, UsageStore, UsageWriter
from hotseat.state.state_file import state_directory
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.shortages import Lag, watch_descriptors
from hotseat.tracing.collector import collector_of
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.tracer import TraceQueue, Tracer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack

    from hotseat.dispatch.journal import Journal
    from hotseat.startup.models import ModelParts
    from hotseat.startup.shared import Shared
    from hotseat.tasks import Tasks
    from hotseat.tracing.collector import Collector

log = logging.getLogger(__name__)


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


def open_tracing(stack: AsyncExitStack, environ: Mapping[str, str], journal: Journal, tasks: Tasks) -> Tracer | None:
    """None: no collector is named, or nothing can be exported to it."""
    try:
        collector = collector_of(environ)
        queue = None if collector is None else queue_for(collector)
    except ImportError as missing:
        log.warning("requests are not traced: install hotseat[otel] missing=%s", missing.name)
        return None
    except ValueError as problem:
        log.warning("requests are not traced: a variable is invalid problem=%r", str(problem))
        return None
    if collector is None or queue is None:
        return None
    steps = SwapSteps(asyncio.get_running_loop().time)
    journal.listen(steps.watch)
    stack.push_async_callback(queue.aclose)
    tasks.start(queue.run(), "traces")
    log.info("requests are traced collector=%s", collector.address)
    return Tracer(steps, queue, collector.samples)


def queue_for(collector: Collector) -> TraceQueue:
    from hotseat.tracing.otlp import OtlpEncoder  # only tracing needs OpenTelemetry's messages

    return TraceQueue(collector, OtlpEncoder(collector.service), asyncio.get_running_loop().time)
