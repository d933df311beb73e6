"""Prometheus metrics of the event loop's load, in which leaked tasks would show first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric


class LoopPage(Collector):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield metric_names.TASKS.gauge(len(asyncio.all_tasks(self._loop)))
