"""A process tree under the guard, as hotseat sees it, and how a model server is ended.

With SIGTERM or `cmdStop`, then SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)


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


class Child:
    def __init__(
        self,
        process: GuardedProcess,
        unload_timeout_s: Seconds,
        run_stop: Callable[[], Awaitable[GuardedProcess]] | None,
        port: int | None,
    ) -> None:
        """`port` is what its `${PORT}` is; None: its command has none."""
        self._process, self.port = process, port
        self._unload_timeout_s = unload_timeout_s
        self._run_stop = run_stop
        self.was_asked_to_end = False
        self.pid = process.pid
        """The server's own process, never the guard's."""
        self.marker = process.marker
        self.gone = process.gone
        """Done when no process of the tree is left."""

    async def exited(self) -> str:
        """How it ended, once no process of the tree is left."""
        return describe(await asyncio.shield(self.gone))

    async def end(self, unload_timeout_s: Seconds | None = None) -> None:
        """Return when no process of the tree is left; killed after the timeout. Safe to call twice.

        Without a timeout, that of its start counts.
        """
        if not self.was_asked_to_end and not self.gone.done():
            self.was_asked_to_end = True
            await self._ask_then_kill(self._unload_timeout_s if unload_timeout_s is None else unload_timeout_s)
        await self.exited()

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)

    def limit_stop(self, unload_timeout_s: Seconds) -> None:
        """For the guard, which ends it if hotseat has died."""
        self._process.limit_stop(unload_timeout_s)

    def describe(self, description: Mapping[str, Any] | None) -> None:
        """For another hotseat process; None: it must not take this one over."""
        self._process.describe(description)

    async def _ask_then_kill(self, unload_timeout_s: Seconds) -> None:
        self._process.begin_stop()
        try:
            async with asyncio.timeout(unload_timeout_s):
                if not await self._was_stopped_by_command():
                    self._process.signal(signal.SIGTERM)
                self._process.signal(signal.SIGCONT)  # a stopped process handles no other signal
                await self.exited()
        except TimeoutError:
            log.warning("model server did not exit in time and is killed pid=%s", self.pid)
        finally:
            self.kill()

    async def _was_stopped_by_command(self) -> bool:
        """Run `cmdStop` if there is one; False if it failed. It has the same timeout as the server."""
        if self._run_stop is None:
            return False
        try:
            stop = await self._run_stop()
        except OSError as problem:
            log.warning("cmdStop could not be run, sending SIGTERM instead pid=%s error=%r", self.pid, str(problem))
            return False
        try:
            status = await asyncio.shield(stop.gone)
        finally:
            stop.signal(signal.SIGKILL)
        if status:
            log.warning("cmdStop failed, sending SIGTERM instead pid=%s exit_status=%r", self.pid, describe(status))
        return not status


def describe(status: int) -> str:
    """A wait status in words: `exited with code 1`, `was ended by SIGKILL`."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was terminated by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was terminated by signal {-code}"
