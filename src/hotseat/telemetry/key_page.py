"""What each key has used, for Prometheus. Only configured keys have a label, by name and never by secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from hotseat.accounts import Account


class KeyPage(Collector):
    def __init__(self, accounts: Callable[[], Sequence[Account]]) -> None:
        self._accounts = accounts

    def describe(self) -> Iterable[Metric]:
        """Nothing, as the other page."""
        return ()

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("hotseat_key_requests", "Requests to models by API key.", labels=["key"])
        refused = CounterMetricFamily("hotseat_key_refused", "Requests beyond a key's limits.", labels=["key"])
        in_flight = GaugeMetricFamily("hotseat_key_in_flight", "Requests that wait or run, by key.", labels=["key"])
        told = "Time for which a key had devices to itself; who is served together shares it."
        seconds = CounterMetricFamily("hotseat_key_device_seconds", told, labels=["key"])
        for account in self._accounts():
            requests.add_metric([account.name], account.requests)
            refused.add_metric([account.name], account.refused)
            in_flight.add_metric([account.name], account.in_flight)
            seconds.add_metric([account.name], account.device_s)
        yield from (requests, refused, in_flight, seconds)
