"""Prometheus metrics of the traces that are exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric


class TracePage(Collector):
    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        dropped = metric_names.TRACES_DROPPED.counter()
        dropped.add_metric([], self._dropped())
        yield dropped
