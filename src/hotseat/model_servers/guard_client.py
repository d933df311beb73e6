"""hotseat's side of the guard: starts processes through it, and hands them over to another hotseat process.

If the guard is killed, its children become children of hotseat, which is a subreaper too: it ends and reports them, and
starts a new guard when one is needed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from typing import TYPE_CHECKING

from hotseat.model_servers.guard_link import END_S, CannotTake, Link
from hotseat.model_servers.guard_messages import close_each
from hotseat.model_servers.os_processes import become_subreaper
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.identifiers import Seconds
    from hotseat.model_servers.guard_grace import GuardGrace
    from hotseat.model_servers.guarded_process import GuardedProcess, Order, PipeEnds, TakenProcess

log = logging.getLogger(__name__)

ISOLATED = (sys.executable, "-I", "-S")
"""Without site-packages and user settings: the guard starts in 20 ms and no installed package can break it."""


class Guard:
    def __init__(
        self, interpreter: Sequence[str] = ISOLATED, records: str = "", grace: GuardGrace | None = None
    ) -> None:
        self._interpreter = interpreter
        self._records = records
        self._grace = grace
        self._link: Link | None = None
        self._ending_guards = Tasks()
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when another hotseat process has taken the servers over. From then on this one can do nothing more with
        them, and ends none of them."""

    def start(self) -> None:
        """Start a guard process. Without a `grace` its servers end with this process, however that ends."""
        become_subreaper()
        self._connected()

    async def take(self, connection: socket.socket) -> list[TakenProcess]:
        """Use the guard of another hotseat process, and take its processes; CannotTake: that is not allowed."""
        become_subreaper()
        link = self._link = Link(connection, self._lost, self._handed_over)
        try:
            processes = await link.take(self._records)
        except CannotTake:
            self._link = None
            raise
        self._announce_grace(link)
        return processes

    @property
    def is_handed_over(self) -> bool:
        """Another hotseat process has the servers: this one must neither touch nor judge them."""
        return self.taken.done()

    @property
    def pid(self) -> int | None:
        """The guard's own process; None: there is none."""
        return self._link.guard.pid if self._link and self._link.guard else None

    @property
    def silent_s(self) -> Seconds:
        """How long the guard has read or answered nothing although it was asked to; 0: it does."""
        return self._link.silent_s if self._link else 0.0

    @property
    def was_orphaned(self) -> bool:
        """Whether nobody had the servers when they were taken: their former hotseat was killed."""
        return self._link is not None and self._link.was_orphaned

    async def spawn(self, order: Order, output: PipeEnds) -> GuardedProcess:
        """Run a program with its output going to `output`; OSError if it cannot be run. Closes `output`."""
        try:
            link = self._connected()
        except OSError:
            close_each(output)
            raise
        process = link.order(order, output)
        try:
            await asyncio.shield(process.spawned)
        except asyncio.CancelledError:
            process.signal(signal.SIGKILL)
            raise
        return process

    def keep_for(self, grace: GuardGrace | None) -> None:
        """Keep the servers for so long after a crash from now on."""
        self._grace = grace
        if self._link:
            self._announce_grace(self._link)

    def offer(self) -> socket.socket:
        """A connection with which another process can `take` all servers, until the offer is withdrawn or replaced."""
        theirs, guards = socket.socketpair()
        try:
            self._connected().send({"do": "offer"}, [guards.detach()])
        except OSError:
            theirs.close()
            raise
        return theirs

    async def were_taken(self) -> None:
        """Return when another hotseat process has taken the servers."""
        await asyncio.shield(self.taken)

    async def withdraw(self) -> bool:
        """Return whether this process still has the servers; if so, nobody can take them any more."""
        if self._link:
            await self._link.withdraw()
        return not self.is_handed_over

    def leave(self) -> None:
        """Leave the servers to the next hotseat process: the guard keeps them as after a crash."""
        if self._link:
            self._link.leave()

    async def aclose(self) -> None:
        """Return when the guard and all its processes have ended, if SIGKILL can end them; at once if it has none."""
        link, self._link = self._link, None
        if link:
            self._ending_guards.start(link.end_all(), "end the guard")
        if (ending := list(self._ending_guards)) and (await asyncio.wait(ending, timeout=2 * END_S))[1]:
            log.error("the guard process, or what it has left, does not end")
            await self._ending_guards.aclose()

    def _connected(self) -> Link:
        if self.is_handed_over:
            raise ConnectionAbortedError("another hotseat process has the model servers")
        if self._link is None:
            link = self._link = Link.to_new_guard(self._interpreter, self._records, self._lost, self._handed_over)
            if self._grace:
                self._announce_grace(link)
        return self._link

    def _announce_grace(self, link: Link) -> None:
        listening = self._grace.listen() if self._grace else None
        if self._grace is None or listening is None:
            return link.send({"do": "keep", "grace_s": 0.0})
        path = {"path": str(self._grace.socket_path), "inode": listening.inode}
        return link.send({"do": "keep", "grace_s": self._grace.seconds, **path}, [listening.listener.detach()])

    def _lost(self, reason: str) -> None:
        link, self._link = self._link, None
        if link:
            log.error("the guard process was lost, stopping all model servers reason=%r", reason)
            self._ending_guards.start(link.wait_for_end(), "wait for the guard to end")

    def _handed_over(self) -> None:
        self._link = None
        self.taken.set_result(None)
