"""Prometheus metrics of API keys. Only configured keys have a label, by name and never by secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from hotseat.activity.usage import Account


class KeyPage(Collector):
    def __init__(self, accounts: Callable[[], Sequence[Account]]) -> None:
        self._accounts = accounts

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        requests, refused = metric_names.KEY_REQUESTS.counter(), metric_names.KEY_REFUSED.counter()
        in_flight, seconds = metric_names.KEY_IN_FLIGHT.gauge(), metric_names.KEY_DEVICE_SECONDS.counter()
        for account in self._accounts():
            requests.add_metric([account.name], account.requests)
            refused.add_metric([account.name], account.refused)
            in_flight.add_metric([account.name], account.in_flight)
            seconds.add_metric([account.name], account.device_s)
        yield from (requests, refused, in_flight, seconds)
