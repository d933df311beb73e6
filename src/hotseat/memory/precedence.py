"""Precedence over models: for programs that the configuration names, such as a game, and on an operator's request."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hotseat.memory.kernel import PROC, text
from hotseat.memory.processes import census
from hotseat.scheduling.events import YieldEnded, YieldRequested
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Place, Seconds
    from hotseat.memory.processes import Process

log = logging.getLogger(__name__)
LONGEST_NAME = 15
"""The kernel truncates process names to this length."""
EVERY_S: Seconds = 2.0


@dataclass(frozen=True, slots=True)
class OtherProgram:
    pid: int
    name: str


def present(patterns: Collection[str], ours: Collection[int] = (), proc: Path = PROC) -> list[OtherProgram]:
    """The processes whose name matches `patterns` (`*`, `?` as in a shell), except `ours` and this one; by pid."""
    if not patterns:
        return []
    excepted = {os.getpid(), *ours}
    others = [process for pid, process in census(proc).items() if pid not in excepted]
    return matching(patterns, ((process.pid, full_name(process, proc)) for process in others))


def matching(patterns: Iterable[str], names: Iterable[tuple[int, str]]) -> list[OtherProgram]:
    """PURE: the processes whose names match."""
    wanted = tuple(patterns)
    return [OtherProgram(pid, name) for pid, name in sorted(names) if any(fnmatchcase(name, each) for each in wanted)]


def full_name(process: Process, proc: Path = PROC) -> str:
    """The name; if the kernel truncated it, the executed file's, whose path has backslashes under Wine."""
    if len(process.name) < LONGEST_NAME:
        return process.name
    program = text(f"{proc}/{process.pid}/cmdline").partition("\0")[0]
    name = re.split(r"[/\\]", program)[-1]
    return name if name.startswith(process.name) else process.name


class Precedence:
    """Tells the scheduler when models must be unloaded, and when they may be loaded again.

    It keeps no yield itself: the scheduler has those of the previous process too, and here each of them can be ended.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        patterns: Callable[[], Collection[str]],
        ours: Callable[[], Collection[int]],
        look: Callable[[Collection[str], Collection[int]], Sequence[OtherProgram]] = present,
        every_s: Seconds = EVERY_S,
    ) -> None:
        self._dispatcher, self._patterns, self._ours, self._look = dispatcher, patterns, ours, look
        self._every_s = every_s

    def yield_memory(self, reason: str, places: frozenset[Place] = frozenset()) -> None:
        self._begin(YieldRequested(reason, places))

    def resume(self) -> str:
        """Withdraw the operator's request; returns the program for which models still yield, if any."""
        self._end(YieldEnded())
        program = self._dispatcher.questions.yields.get(True)
        return program.reason if program else ""

    async def walk(self) -> None:
        """Look for programs; never returns."""
        await forever(self._look_and_pause, "look for programs with precedence")

    async def _look_and_pause(self) -> None:
        await self.look()
        await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        patterns = tuple(self._patterns())
        found = await asyncio.to_thread(self._look, patterns, tuple(self._ours())) if patterns else ()
        reason = f"{found[0].name} is running (pid {found[0].pid})" if found else ""
        known = self._dispatcher.questions.yields.get(True)
        if reason and (known is None or known.reason != reason):
            self._begin(YieldRequested(reason, for_program=True))
        elif known and not reason:
            self._end(YieldEnded(for_program=True))

    def _begin(self, event: YieldRequested) -> None:
        log.info("yielding memory, models are unloaded reason=%r", event.reason)
        self._dispatcher.tell(event)

    def _end(self, event: YieldEnded) -> None:
        self._dispatcher.tell(event)
        if not self._dispatcher.questions.yields:
            log.info("models may load again")
