"""The process tree of one server: SIGTERM or `cmdStop`, then SIGKILL, and how it ended in words."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hotseat.identifiers import Seconds
    from hotseat.model_servers.guarded_process import GuardedProcess

log = logging.getLogger(__name__)


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
