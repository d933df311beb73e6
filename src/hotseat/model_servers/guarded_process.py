"""A process tree under the guard, as hotseat sees it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Order:
    """A program to start. `stop` (a program, then its argv) is what the guard runs if hotseat has died."""

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stop: tuple[str, ...] | None = None
    unload_timeout_s: float = 10.0


class PipeEnds(NamedTuple):
    """Descriptors of a process's output. The guard keeps the read end, so that the pipe survives hotseat."""

    write: int
    read: int


class GuardedProcess:
    """`gone` holds the leader's wait status once no process of the tree is left.

    Neither future is ever done if another hotseat process has taken the process over: it knows from then on.
    """

    def __init__(self, n: int, marker: str, argv: tuple[str, ...], send: Callable[[Mapping[str, Any]], None]) -> None:
        loop = asyncio.get_running_loop()
        self.n, self.marker, self.argv, self._send = n, marker, argv, send
        self.spawned: asyncio.Future[int] = loop.create_future()
        self.gone: asyncio.Future[int] = loop.create_future()
        self.started: int | None = None
        """When its leader began, in the kernel's words: with this, a pid is never another process."""
        self._when_taken: list[Callable[[], object]] = []
        self._is_taken = False

    @property
    def pid(self) -> int:
        return self.spawned.result()

    def signal(self, number: int) -> None:
        """Signal the leader's process group; if the leader has ended, SIGKILL is for what it left behind."""
        self._send({"do": "signal", "n": self.n, "signal": number})

    def begin_stop(self) -> None:
        """What its leader leaves behind from now on is asked to end, instead of killed at once."""
        self._send({"do": "stopping", "n": self.n})

    def limit_stop(self, unload_timeout_s: float) -> None:
        """What counts instead of the order's if the guard ends it."""
        self._send({"do": "limit", "n": self.n, "unload_timeout_s": unload_timeout_s})

    def ask_guard_to_end(self) -> None:
        """Let the guard do it as if hotseat had died: with `cmdStop` or SIGTERM, then SIGKILL."""
        self._send({"do": "end", "n": self.n})

    def describe(self, description: Mapping[str, Any] | None) -> None:
        """What another hotseat process must know in order to take it over, instead of what was said before."""
        self._send({"do": "describe", "n": self.n, "description": description})

    def when_taken(self, call: Callable[[], object]) -> None:
        """Call it once another hotseat process has taken it over, at once if it has already."""
        if self._is_taken:
            call()
        else:
            self._when_taken.append(call)

    def be_taken(self) -> None:
        self._is_taken = True
        for call in self._when_taken:
            call()


class TakenProcess(NamedTuple):
    """A process that was handed over to this hotseat process."""

    process: GuardedProcess
    description: object
    """The former owner's; JSON."""
    output: int
    """The read end of its output, which whoever has this must read or close."""
