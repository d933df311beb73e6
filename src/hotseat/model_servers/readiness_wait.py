"""Waits until a server that was started is ready, has exited, or takes too long."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.launch_failures import Exited, Trouble
from hotseat.model_servers.own_download import DownloadProgress
from hotseat.model_servers.readiness import UNREACHED, Readiness
from hotseat.tasks import Tasks
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from hotseat.catalog.spec import FilledRecipe
    from hotseat.identifiers import Address, Bytes, ModelName, Seconds
    from hotseat.model_servers.server_process import Child

log = logging.getLogger(__name__)

SHORTEST_DEADLINE_S: Seconds = 120.0
SLOWEST: Bytes = 50 * 10**6
"""Bytes that a slow disk reads in a second."""


class Ready(NamedTuple):
    address: Address
    server: str
    """Its `Server` header."""


class ReadinessWait:
    def __init__(
        self, model: ModelName, child: Child, recipe: FilledRecipe, within_s: Seconds, lines: bytes, does_download: bool
    ) -> None:
        """`lines` are sent with each health check."""
        self._model, self._child, self._recipe, self._within_s, self._lines = model, child, recipe, within_s, lines
        self._does_download = does_download

    async def ready(self) -> Ready:
        """Trouble: it exited or took too long."""
        readiness, tasks = Readiness(self._recipe.address, self._recipe.check_endpoint, lines=self._lines), Tasks()
        answer: asyncio.Task[Address] = tasks.start(readiness.reached(), f"ask {self._model}")
        try:
            await self._first_of({answer, self._child.gone})
        finally:
            await tasks.aclose()
        if self._child.gone.done():
            raise Exited(await self._child.exited())
        if answer.cancelled():
            raise Trouble(self._late(readiness))
        return Ready(await answer, readiness.server)

    async def _first_of(self, ends: set[asyncio.Future[Any]]) -> None:
        """Return when one of them is done, or too late: a server that downloads its model has time while it does."""
        download, place = None, (self._model, "download")
        if self._does_download:
            download = await look_at_disk(place, partial(DownloadProgress, self._child.pid))
        looks = looks_left = 2 if download else 1
        while looks_left:
            done, _ = await asyncio.wait(ends, timeout=self._within_s / looks, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            looks_left -= 1
            if download is not None and await look_at_disk(place, download.has_grown):
                log.info("server is still downloading its model, waiting longer model=%s", self._model)
                looks_left = looks

    def _late(self, readiness: Readiness) -> str:
        asked = f"{self._recipe.address}{self._recipe.check_endpoint or ''}"
        seconds = f"health check timed out after {self._within_s:g} seconds"
        is_silent = readiness.last_answer == UNREACHED
        advice = "Correct the port in `cmd` or `proxy` if it listens elsewhere, or raise" if is_silent else "Raise"
        return f"{seconds} ({asked}: {readiness.last_answer}). {advice} healthCheckTimeout if it needs more time"


def deadline_s(weight: Bytes) -> Seconds:
    """PURE: default limit for a start: large files take long, especially over a network."""
    return max(SHORTEST_DEADLINE_S, float(weight // SLOWEST))
