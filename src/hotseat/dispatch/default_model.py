"""Loads the models of the startup, and the default model again, if configured, after another one's ttl.

The scheduler does not know about this: the loads are requested like an operator's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError
from hotseat.scheduling.commands import Cause, StopUpstream
from hotseat.scheduling.events import UpstreamExited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import LaunchId, ModelName
    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)


class Preload:
    """One model after the other. At a restart, the next process goes on with those that are left."""

    def __init__(self, dispatcher: Dispatcher, models: Iterable[ModelName]) -> None:
        self._dispatcher = dispatcher
        self.left = [*models]
        """The first one is being loaded."""

    async def run(self) -> None:
        while self.left:
            model = self.left[0]
            try:
                await self._dispatcher.operator.load(model)
            except HotseatError as error:
                log.warning("preload failed model=%s error=%r", model, error.message)
            del self.left[:1]  # there is none if the next process goes on with them


class DefaultModelLoader:
    def __init__(self, dispatcher: Dispatcher, tasks: Tasks) -> None:
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._unused: set[LaunchId] = set()
        """Launches that are ending because of their ttl."""

    def watch(self, entry: Entry) -> None:
        """A listener of the journal."""
        stopped = [command for command in entry.commands if isinstance(command, StopUpstream)]
        self._unused |= {command.launch for command in stopped if command.cause is Cause.TTL}
        event = entry.event
        if not isinstance(event, UpstreamExited) or event.launch not in self._unused:
            return
        self._unused.discard(event.launch)
        if home := home_after(event.model, self._dispatcher):
            self._tasks.start(self._return_to(home), f"return to {home}")

    async def _return_to(self, home: ModelName) -> None:
        try:
            await self._dispatcher.operator.load(home)
        except HotseatError as error:
            log.warning("return to the default model failed model=%s error=%r", home, error.message)


def home_after(left: ModelName, dispatcher: Dispatcher) -> ModelName | None:
    """The default model if it should load now that `left` is gone: no request waits, and it fits beside the others."""
    home = dispatcher.catalog.default_model
    if not dispatcher.catalog.returns_to_default or home is None or home == left:
        return None
    return home if dispatcher.questions.may_load_beside_all(home) else None
