"""GET /metrics: everything that is counted or measured, as Prometheus reads it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from prometheus_client import ProcessCollector, generate_latest

from hotseat.telemetry.metrics_page import Page

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

    from hotseat.scheduling.view import View
    from hotseat.telemetry.metrics import Metrics


class MetricsText:
    def __init__(
        self,
        metrics: Metrics,
        view: Callable[[], View],
        lag: Callable[[], float],
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        page = Page(metrics.counters, view, lag, lost, lambda: metrics.reload_succeeded)
        self._collectors: list[Collector] = [page, ProcessCollector(registry=None)]

    def include(self, more: Collector) -> None:
        """Add another collector to the page."""
        self._collectors.append(more)

    async def render(self, *more: Collector) -> bytes:
        """With what is collected for this page only. A thread writes it: thousands of hosts or keys take a while."""
        found = _Collected()
        for collector in (*self._collectors, *more):
            found.metrics += collector.collect()
            await asyncio.sleep(0)
        return await asyncio.to_thread(generate_latest, cast("CollectorRegistry", found))


class _Collected:
    """What `generate_latest` needs of a registry."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self.metrics
