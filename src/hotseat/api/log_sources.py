"""Everything that writes log lines, for the API."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from hotseat.identifiers import LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from hotseat.api.deps import LogSource
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import ModelName
    from hotseat.model_servers.output import Output, Outputs


class LogSources:
    def __init__(self, dispatcher: Dispatcher, outputs: Outputs, own: LogSource) -> None:
        self._dispatcher = dispatcher
        self._outputs = outputs
        self.own = own

    def of_model(self, model: ModelName) -> LogSource:
        return ModelOutput(model, self._outputs.of(model))

    def all(self) -> Sequence[LogSource]:
        return [self.own, *map(self.of_model, self._dispatcher.catalog.models)]


class ModelOutput:
    def __init__(self, model: ModelName, output: Output) -> None:
        self._model = model
        self._output = output

    def newest(self, lines: int) -> Iterator[LogLine]:
        return (LogLine(line.at, line.text, self._model) for line in self._output.newest(lines))

    async def follow(self) -> AsyncGenerator[LogLine, None]:
        async with aclosing(self._output.follow()) as lines:
            async for line in lines:
                yield LogLine(line.at, line.text, self._model)
