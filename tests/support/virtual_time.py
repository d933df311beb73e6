"""A virtual clock: when every task waits for a timer, the clock jumps to it.

For code without sockets, threads and child processes; if no timer is left, it fails instead of hanging. For the rest
there is `skip`: it lets a time limit pass at the moment that the test chooses.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")


class JumpingSelector(selectors.DefaultSelector):
    """Never waits; the clock jumps to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and no timer is set")
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


async def advance(seconds: float) -> None:
    """Let so much virtual time pass; everything that is due meanwhile happens."""
    assert isinstance(asyncio.get_running_loop(), JumpingLoop), "this clock is real: wait for a fact instead"
    await asyncio.sleep(seconds)


def skip(seconds: float) -> None:
    """Set the clock of asyncio's own loop forward: limits that end until then are over, however slow the machine is."""
    loop = asyncio.get_running_loop()
    time = loop.time
    vars(loop)["time"] = lambda: time() + seconds


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on its own loop with a virtual clock."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
