"""Opens tracing if the environment names a collector. Whatever is wrong with it, hotseat serves without traces."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotseat.tracing.collector import collector_of
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.tracer import TraceQueue, Tracer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack

    from hotseat.dispatch.journal import Journal
    from hotseat.tasks import Tasks
    from hotseat.tracing.collector import Collector

log = logging.getLogger(__name__)


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
