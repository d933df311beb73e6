"""hotseat's side of the guard: starts processes through it.

If the guard is killed, its children become children of hotseat, which is a subreaper too: it ends and reports them, and
starts a new guard when one is needed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from hotseat.model_servers.guard_link import GuardedProcess, Link, Order
from hotseat.model_servers.os_processes import become_subreaper
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

ISOLATED = (sys.executable, "-I", "-S")
"""Without site-packages and user settings: the guard starts in 20 ms and no installed package can break it."""


class Guard:
    def __init__(self, interpreter: Sequence[str] = ISOLATED, records: str = "") -> None:
        self._interpreter = interpreter
        self._records = records
        self._link: Link | None = None
        self._ending_guards = Tasks()

    @classmethod
    async def open(cls, interpreter: Sequence[str] = ISOLATED, records: str = "") -> Guard:
        become_subreaper()
        guard = cls(interpreter, records)
        guard._connected()
        return guard

    @property
    def pid(self) -> int | None:
        """The guard's own process; None: there is none."""
        return self._link.process.pid if self._link else None

    async def spawn(self, order: Order, output: int) -> GuardedProcess:
        """Run a program with its output going to `output`; OSError if it cannot be run. Closes `output`."""
        process = self._connected().order(order, output)
        try:
            await asyncio.shield(process.spawned)
        except asyncio.CancelledError:
            process.signal(signal.SIGKILL)
            raise
        return process

    async def aclose(self) -> None:
        """Return when the guard and all its processes have ended."""
        link, self._link = self._link, None
        if link:
            link.hang_up()
            await link.wait_for_end()
        while ending := list(self._ending_guards):
            await asyncio.wait(ending)

    def _connected(self) -> Link:
        if self._link is None:
            self._link = Link(self._interpreter, self._lost, self._records)
        return self._link

    def _lost(self) -> None:
        log.error("the guard process was lost, stopping all upstreams")
        link, self._link = self._link, None
        if link:
            self._ending_guards.start(link.wait_for_end(), "wait for the guard to end")
