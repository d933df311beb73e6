"""One claim at a time for each replica of a model: whoever needs it meanwhile waits for its result.

Otherwise, each of a hundred requests for a model that no host has would ask the store.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.errors import FleetDisconnected

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hotseat.fleet.load_claims import Agreed
    from hotseat.tasks import Tasks


THIS_HOST_LEAVES = "no host can be chosen: this host leaves the fleet. Try again."


class ClaimsInProgress:
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[Agreed]] = {}
        """By the claim's key."""

    async def agreed(self, key: str, claim: Callable[[], Coroutine[Any, Any, Agreed]]) -> Agreed:
        """The result of the claim in progress, else of a new one."""
        if running := self._running.get(key):
            return replace(await _result(running), is_ours=False)
        return await _result(self._start(key, claim))

    def _start(self, key: str, claim: Callable[[], Coroutine[Any, Any, Agreed]]) -> asyncio.Task[Agreed]:
        task = self._running[key] = self._tasks.start(claim(), f"claim {key}")
        task.add_done_callback(lambda _: self._running.pop(key))
        return task


async def _result(task: asyncio.Task[Agreed]) -> Agreed:
    """A caller that is cancelled ends its own wait and not the claim, for which others may wait."""
    await asyncio.wait([task])
    if task.cancelled():
        raise FleetDisconnected(THIS_HOST_LEAVES)
    return task.result()
