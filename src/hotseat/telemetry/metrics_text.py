"""GET /metrics: everything that is counted or measured, as Prometheus reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from hotseat.telemetry.metrics_page import Page

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._registry = CollectorRegistry()
        self._registry.register(Page(metrics.counters, view, lag, lost, lambda: metrics.reload_succeeded))
        ProcessCollector(registry=self._registry)

    def include(self, more: Collector) -> None:
        """Add another collector to the page."""
        self._registry.register(more)

    def render(self, *more: Collector) -> bytes:
        """With what is collected for this page only."""
        return b"".join(map(generate_latest, (self._registry, *more)))
