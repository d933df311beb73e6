"""Prometheus metrics of saved conversations, for the models that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from hotseat.identifiers import Bytes, ModelName
    from hotseat.scheduling.view import ConversationsView, View


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
        yield from self._on_disk([name for name, _ in seen])
        yield from of_past(seen)

    def _on_disk(self, names: Iterable[ModelName]) -> Iterator[Metric]:
        count, size = metric_names.CONVERSATIONS_KEPT.gauge(), metric_names.CONVERSATION_BYTES.gauge()
        for name in names:
            kept, taken = self._kept(name)
            count.add_metric([name], kept)
            size.add_metric([name], taken)
        yield from (count, size)


def of_past(seen: Iterable[tuple[ModelName, ConversationsView]]) -> Iterator[Metric]:
    saved, reused = metric_names.CONVERSATIONS_SAVED.counter(), metric_names.CONVERSATIONS_REUSED.counter()
    gained = metric_names.CONVERSATION_SECONDS.counter()
    for name, conversations in seen:
        saved.add_metric([name], conversations.saved)
        reused.add_metric([name], conversations.reused)
        gained.add_metric([name], conversations.gained_s)
    yield from (saved, reused, gained)
