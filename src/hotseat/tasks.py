"""Background tasks with an owner, endless loops, and calls that may raise: failures are logged and end nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from hotseat.identifiers import Instant, Seconds

log = logging.getLogger(__name__)

P = ParamSpec("P")

LEAST_PAUSE_S: Seconds = 1.0
MOST_PAUSE_S: Seconds = 30.0
"""Between a failed turn of a loop and the next: at first, and after many failures."""
REPEATED = 3
"""Turns that fail one after the other before the loop counts as failing."""
WORKS_S: Seconds = 15.0
"""A turn that lasts longer works: some last as long as a connection, and no other waits longer for its next look."""


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


class _Loop(Struct, eq=False):
    name: str
    begun: Instant
    """When its turn began, or its next one will."""
    failures: int = 0
    """One after the other."""


_loops: list[_Loop] = []
"""Those that run in this process."""


async def forever(turn: Callable[[], Awaitable[object]], name: str, every_s: Seconds = 0.0) -> NoReturn:
    """Call `turn` again and again until this is cancelled, whatever it raises; `every_s` is the pause before each."""
    clock, task = asyncio.get_running_loop().time, asyncio.current_task()
    loop = _Loop(name, clock())
    _loops.append(loop)
    try:
        while True:
            try:
                if every_s:
                    await asyncio.sleep(every_s)
                await turn()
            except (Exception, asyncio.CancelledError):  # a cancellation of something that it awaited is a failure too
                if task and task.cancelling():
                    raise
                pause_s = min(MOST_PAUSE_S, LEAST_PAUSE_S * 2.0 ** min(loop.failures, 10))
                loop.failures += 1
                log.exception("background loop failed and goes on loop=%s again_in_s=%g", name, pause_s)
                loop.begun = clock() + pause_s
                await asyncio.sleep(pause_s)
            else:
                if loop.failures:
                    log.info("background loop works again loop=%s", name)
                loop.begun, loop.failures = clock(), 0
                await asyncio.sleep(0)  # others get their turn, even if this one waited for nothing
    finally:
        _loops.remove(loop)


def failing_loops() -> list[str]:
    """The names of the endless loops that failed again and again and do not work yet."""
    now = asyncio.get_running_loop().time()
    return [each.name for each in _loops if each.failures >= REPEATED and now - each.begun < WORKS_S]


def attempt(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call it; if it raises, log the traceback and return False."""
    try:
        call(*args, **kwargs)
    except Exception:
        log.exception("internal error call=%s", getattr(call, "__qualname__", call))
        return False
    return True
