"""Prometheus metrics of API keys. Only configured keys have a label, by name and never by secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.activity.usage_store import Used
from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from hotseat.activity.usage import Account


class KeyPage(Collector):
    def __init__(self, accounts: Callable[[], Sequence[Account]], used: Callable[[], Mapping[str, Used]]) -> None:
        """`used`: by the name of the key."""
        self._accounts = accounts
        self._used = used

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        requests, refused = metric_names.KEY_REQUESTS.counter(), metric_names.KEY_REFUSED.counter()
        seconds = metric_names.KEY_DEVICE_SECONDS.counter()
        for account in self._accounts():
            requests.add_metric([account.name], account.requests)
            refused.add_metric([account.name], account.refused)
            seconds.add_metric([account.name], account.device_s)
        yield from (requests, refused, seconds, self._tokens())

    def _tokens(self) -> Metric:
        tokens, by_key = metric_names.KEY_TOKENS.counter(), self._used()
        for account in self._accounts():
            used = by_key.get(account.name, Used())
            tokens.add_metric([account.name, metric_names.PROMPT], used.prompt)
            tokens.add_metric([account.name, metric_names.CACHED], used.cached)
            tokens.add_metric([account.name, metric_names.COMPLETION], used.completion)
            tokens.add_metric([account.name, metric_names.ESTIMATED], used.estimated)
        return tokens
