"""Prometheus metrics of hotseat's own process: its tasks, and the log lines and traces that it dropped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric


class ProcessPage(Collector):
    def __init__(self, lines_dropped: Callable[[], int], traces_dropped: Callable[[], int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines_dropped, self._traces_dropped = lines_dropped, traces_dropped

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        # Leaked tasks would show here first.
        yield metric_names.TASKS.gauge(len(asyncio.all_tasks(self._loop)))
        lines, traces = metric_names.LOG_LINES_DROPPED.counter(), metric_names.TRACES_DROPPED.counter()
        lines.add_metric([], self._lines_dropped())
        traces.add_metric([], self._traces_dropped())
        yield from (lines, traces)
