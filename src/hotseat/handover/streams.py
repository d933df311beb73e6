"""Whether servers send something, also through a process that was replaced: that is a sign of life of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotseat.handover.channel import Channel
    from hotseat.identifiers import ModelName, Seconds

REPORT_S: Seconds = 2.0
"""Far less than the silence after which a server counts as unresponsive."""
STREAMS = "streams"
"""The kind of the message."""


class Streams:
    def __init__(self, own: Callable[[ModelName], Sequence[object]], models: Callable[[], Iterable[ModelName]]) -> None:
        """`own` is the last data from a model's server through this process, by request; `models` may have some."""
        self._own, self._models = own, models
        self._others: dict[ModelName, object] = {}

    def note(self, model: ModelName) -> None:
        """Its server has sent something through the previous process."""
        self._others[model] = object()

    def last_pieces(self, model: ModelName) -> list[object]:
        """While the objects stay the same, nothing arrived, neither here nor in the previous process."""
        other = self._others.get(model)
        return [*self._own(model), *([] if other is None else [other])]

    async def report(self, to: Channel, every_s: Seconds = REPORT_S) -> None:
        """Tell the new process which servers send something. Never returns; cancel it to stop."""
        before: Mapping[ModelName, list[object]] = {}

        async def tell() -> None:
            nonlocal before
            now = {model: self.last_pieces(model) for model in {*self._models(), *self._others}}
            for model, pieces in now.items():
                if not {*map(id, pieces)} <= {*map(id, before.get(model, ()))}:
                    to.send(STREAMS, model=model)
            before = now

        await forever(tell, "report streams", every_s)
