"""Simulated model servers of one host: a load takes time, and nothing happens while the host is stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.support.fake_launcher import FakeLauncher

from hotseat.errors import LoadFailed
from hotseat.identifiers import Address, Upstream
from hotseat.scheduling.events import UpstreamFailed, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import ModelName, Seconds
    from hotseat.scheduling.commands import Cause, StartUpstream, StopUpstream

LOAD_S: Seconds = 4.0
STOP_S: Seconds = 0.3


class SimulatedLauncher(FakeLauncher):
    def __init__(self, awake: asyncio.Event, begins: Callable[[ModelName], None]) -> None:
        """`begins` is called at the begin of each load."""
        super().__init__()
        self._awake, self._begins = awake, begins
        self.stopped: dict[ModelName, Cause] = {}
        """Why each model was last stopped."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        name, launch = command.model, command.launch
        await self._awake.wait()
        self._begins(name)
        gone = self._gone[name] = asyncio.get_running_loop().create_future()
        await asyncio.wait([gone], timeout=LOAD_S)
        await self._awake.wait()
        if gone.done():
            return UpstreamFailed(name, launch, LoadFailed(f"{name} was stopped while it was loading"))
        return UpstreamReady(name, launch, Upstream(Address("127.0.0.1", 40_000 + launch), 7_000 + launch))

    async def stop(self, command: StopUpstream) -> None:
        self.stopped[command.model] = command.cause
        await asyncio.sleep(STOP_S)
        await self._awake.wait()
        await super().stop(command)
