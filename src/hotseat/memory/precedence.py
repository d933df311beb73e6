"""Precedence over models: for programs that the configuration names, and on an operator's request."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotseat.hardware.other_programs import present
from hotseat.scheduling.events import YieldEnded, YieldRequested

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hotseat.hardware.other_programs import OtherProgram
    from hotseat.identifiers import Place, Seconds
    from hotseat.scheduling.events import Event

log = logging.getLogger(__name__)

EVERY_S: Seconds = 2.0


class Precedence:
    """Tells the scheduler when models must be unloaded, and when they may be loaded again."""

    def __init__(
        self,
        tell: Callable[[Event], None],
        patterns: Callable[[], Collection[str]],
        ours: Callable[[], Collection[int]],
        look: Callable[[Collection[str], Collection[int]], Sequence[OtherProgram]] = present,
        every_s: Seconds = EVERY_S,
    ) -> None:
        self._tell, self._patterns, self._ours, self._look, self._every_s = tell, patterns, ours, look, every_s
        self._requested: YieldRequested | None = None
        """For an operator."""
        self._needed: YieldRequested | None = None
        """For a program."""
        self._reported: YieldRequested | None = None

    def yield_memory(self, reason: str, places: frozenset[Place] = frozenset()) -> None:
        self._requested = YieldRequested(reason, places)
        self._decide()

    def resume(self) -> str:
        """Withdraw the operator's request; returns the program for which models still yield, if any."""
        self._requested = None
        self._decide()
        return self._needed.reason if self._needed else ""

    async def walk(self) -> None:
        """Look for programs; never returns."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        patterns = tuple(self._patterns())
        found = await asyncio.to_thread(self._look, patterns, tuple(self._ours())) if patterns else ()
        self._needed = YieldRequested(f"{found[0].name} is running (pid {found[0].pid})") if found else None
        self._decide()

    def _decide(self) -> None:
        """A program needs all devices, so it wins over an operator, who may need one."""
        yielding = self._needed or self._requested
        if yielding == self._reported:
            return None
        self._reported = yielding
        if yielding is None:
            log.info("models may load again")
            return self._tell(YieldEnded())
        log.info("yielding memory, models are unloaded reason=%r", yielding.reason)
        return self._tell(yielding)
