"""Background tasks with an owner, and calls that may raise: failures are logged and end nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

log = logging.getLogger(__name__)

P = ParamSpec("P")


class Tasks:
    """Running tasks. `aclose` cancels them, in the order of their start, and returns when all have ended."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}
        """Ordered, unlike a set: what a simulation does is the same in every process."""

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._running))

    async def aclose(self) -> None:
        for task in self._running:
            task.cancel()
        while self._running:
            await asyncio.wait(self._running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (problem := task.exception()):
            log.error("background task failed task=%s", task.get_name(), exc_info=problem)


def attempt(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call it; if it raises, log the traceback and return False."""
    try:
        call(*args, **kwargs)
    except Exception:
        log.exception("internal error call=%s", getattr(call, "__qualname__", call))
        return False
    return True
