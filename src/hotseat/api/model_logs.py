"""The output of model servers, for the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import ModelName
    from hotseat.model_servers.output import Outputs


class ModelLogs:
    def __init__(self, dispatcher: Dispatcher, outputs: Outputs) -> None:
        self._dispatcher = dispatcher
        self._outputs = outputs

    def models(self) -> Iterable[ModelName]:
        return self._dispatcher.catalog.models

    def tail(self, model: ModelName, lines: int) -> list[str]:
        return self._outputs.of(model).tail(lines)

    def follow(self, model: ModelName) -> AsyncGenerator[str, None]:
        return self._outputs.of(model).follow()
