"""Processes that another hotseat process has handed over: which of them are servers that can be used, and the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.api_key import authorization
from hotseat.model_servers.descendants import is_running
from hotseat.model_servers.output import Pipe
from hotseat.model_servers.port_owner import listener_of
from hotseat.model_servers.readiness import Readiness
from hotseat.model_servers.recent_chunks import KEPT
from hotseat.model_servers.server_description import read_description
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Seconds
    from hotseat.model_servers.guarded_process import GuardedProcess, TakenProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.server_description import ServerDescription

HEALTH_S: Seconds = 5.0
"""For a server that was left alone to answer its health check."""


class HeldOutput:
    """The newest output of a server, until somebody knows what must be concealed in it."""

    def __init__(self) -> None:
        self._kept = b""
        self._output: Output | None = None

    def feed(self, data: bytes) -> None:
        if self._output:
            self._output.feed(data)
        else:
            self._kept = (self._kept + data)[-KEPT:]

    def end_line(self) -> None:
        if self._output:
            self._output.end_line()

    def lead_to(self, output: Output) -> None:
        """From now on; what was kept goes there first."""
        self._output = output
        if self._kept:
            output.feed(self._kept)


class TakenServer(NamedTuple):
    process: GuardedProcess
    output: HeldOutput
    description: ServerDescription | None
    """None: it was not ready, or is no server."""

    @classmethod
    def of(cls, taken: TakenProcess) -> TakenServer:
        """Its output is read from now on, so that it is not blocked."""
        process, output = taken.process, HeldOutput()
        pipe = Pipe(output, taken.output)
        process.gone.add_done_callback(lambda _: pipe.close())
        process.when_taken(pipe.leave)
        return cls(process, output, read_description(taken.description, process.pid))


class TakenServers:
    def __init__(self, taken: Iterable[TakenProcess] = (), *, were_orphaned: bool = False) -> None:
        self._left = [TakenServer.of(each) for each in taken]
        self._were_orphaned = were_orphaned
        self._ending: list[GuardedProcess] = []

    async def usable(self) -> list[ServerDescription]:
        """The ready servers among them, as far as can be seen from outside."""
        are_usable = await asyncio.gather(*map(self._is_usable, self._left))
        pairs = zip(self._left, are_usable, strict=True)
        return [each.description for each, is_usable in pairs if each.description and is_usable]

    def claim(self, description: ServerDescription) -> TakenServer:
        """LookupError: there is none, or it was claimed before."""
        for each in self._left:
            if each.description == description:
                self._left.remove(each)
                return each
        raise LookupError(f"no server of {description.model} was handed over with pid {description.pid}")

    def end_unclaimed(self) -> None:
        """Begin to end them."""
        unclaimed, self._left = [each.process for each in self._left], []
        for process in unclaimed:
            process.ask_guard_to_end()
        self._ending += unclaimed

    def ended(self) -> asyncio.Future[Any]:
        """Done when no process of those is left."""
        return asyncio.gather(*(asyncio.shield(process.gone) for process in self._ending))

    async def _is_usable(self, server: TakenServer) -> bool:
        process, description = server.process, server.description
        if description is None or process.gone.done() or not is_running(process.pid, process.started):
            return False
        _, is_ours = await in_thread(
            "look for the listener", listener_of, description.address, process.pid, process.marker
        )
        if not is_ours:
            return False
        return description.sleep is not None or not self._were_orphaned or await is_healthy(description)


async def is_healthy(description: ServerDescription) -> bool:
    """A server whose hotseat was killed may have failed since: nobody has watched it."""
    lines = authorization(description.api_key)
    try:
        async with asyncio.timeout(HEALTH_S):
            await Readiness(description.address, description.check_endpoint, lines=lines).reached()
    except TimeoutError:
        return False
    return True
