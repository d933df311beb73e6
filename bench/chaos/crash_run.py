"""Crashes of hotseat under traffic: with a grace its model servers are kept, without one nothing survives."""

from __future__ import annotations

import random
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.hotseat_process import HotseatProcess, until
from bench.chaos.injecting import Injector
from bench.chaos.restart_run import EVERYTHING_FITS_GIB, QuietRun, all_loaded, played
from tests.support.processes import command_line

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from bench.chaos.run import Outcome

KILL = "kill -9 of hotseat"


class CrashInjector(Injector):
    def __init__(self, rig: HotseatProcess, rng: random.Random, times: int) -> None:
        super().__init__(rng)
        self._rig, self._times = rig, times
        self._faults = {KILL: self._crash}
        self.kept = 0
        """Crashes after which every server was the same."""

    async def run(self, is_over: asyncio.Event) -> None:
        for _ in range(self._times):
            if is_over.is_set():
                return
            await self.inject(KILL)
        is_over.set()

    async def _crash(self) -> str | None:
        before = await all_loaded(self._rig)
        await self._rig.end(signal.SIGKILL)
        if not self._rig.grace and not await until(lambda: not self._rig.processes()):
            left = [command_line(pid) for pid in self._rig.processes()]
            self.trouble.append(f"these survived a crash: {left}")
        await self._rig.start()
        if self._rig.grace:
            self._compare(before, await all_loaded(self._rig))
        return None

    def _compare(self, before: dict[str, list[int]], after: dict[str, list[int]]) -> None:
        if before == after:
            self.kept += 1
        else:
            self.trouble.append(f"servers were replaced after a crash: {before} became {after}")

    @property
    def notes(self) -> list[str]:
        return [f"crashes: {len(self.injected)}, after which every server was the same: {self.kept}"]


async def run_crashes(
    times: int, grace: str, seed: int, seconds: float, most: int | None, say: Callable[[str], None]
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="hotseat-crashes-") as folder:
        rig = HotseatProcess(Path(folder), budget_gib=EVERYTHING_FITS_GIB)
        rig.grace = grace
        injector = CrashInjector(rig, random.Random(f"{seed}/injector"), times)
        return await played(rig, QuietRun([rig], injector, seed, most, say), seconds)
