"""Prometheus metrics of saved conversations, for the models that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from hotseat.identifiers import Bytes, ModelName
    from hotseat.scheduling.view import View


class ConversationPage(Collector):
    def __init__(self, view: Callable[[], View], kept: Callable[[ModelName], tuple[int, Bytes]]) -> None:
        """`kept`: how many conversations of a model are on disk, and their size."""
        self._view = view
        self._kept = kept

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        seen = [(model.name, model.conversations) for model in self._view().models if model.conversations]
        size, gained = metric_names.CONVERSATION_BYTES.gauge(), metric_names.CONVERSATION_SECONDS.counter()
        for name, conversations in seen:
            _, taken = self._kept(name)
            size.add_metric([name], taken)
            gained.add_metric([name], conversations.gained_s)
        yield from (size, gained)
