"""Faults of hotseat's own processes: ended, killed, replaced, and started again."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from bench.chaos.hotseat_process import QUIET_WITHIN_S, send_signal, until
from bench.chaos.injecting import RESTART
from bench.chaos.log_lines import adopted_in
from bench.chaos.requests import STUBS
from tests.support.processes import command_line

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from bench.chaos.hotseat_process import HotseatProcess

GRACE_S = 60
READY = ("ready", "draining")
EXITS_S = 0.3
"""A scripted server that was just being stopped has ended then."""


class ProcessFaults:
    def __init__(self, rig: HotseatProcess, rng: random.Random, trouble: list[str]) -> None:
        self._rig, self._rng, self._trouble = rig, rng, trouble
        self.by_name: dict[str, Callable[[], Awaitable[None]]] = {
            "SIGTERM and restart": self._stop,
            "kill -9 of hotseat": self._kill,
            "kill -9 of the guard": self._kill_guard,
            "crash with grace": self._crash_with_grace,
            RESTART: self._replace,
        }
        self._kept = self._crashes = 0

    @property
    def notes(self) -> list[str]:
        return [f"crashes with grace: {self._crashes}, servers that were kept: {self._kept}"]

    async def _stop(self) -> None:
        code = await self._rig.end(signal.SIGTERM)
        if code != 0:
            self._trouble.append(f"hotseat ended with {code} after SIGTERM")
        if left := self._rig.processes():
            self._trouble.append(f"after SIGTERM of hotseat there are still {[command_line(pid) for pid in left]}")
        await self._rig.start()

    async def _kill(self) -> None:
        await self._rig.end(signal.SIGKILL)
        await self._rig.start()

    async def _kill_guard(self) -> None:
        for pid in self._rig.processes("hotseat.model_servers.guard_process"):
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(0.5)

    async def _replace(self) -> None:
        if problem := await self._rig.restart():
            self._trouble.append(f"a restart failed: {problem}")

    # A crash after which the servers are kept

    async def _crash_with_grace(self) -> None:
        await self._configure(GRACE_S)
        await self._rig.ask("GET", f"/upstream/{self._rng.choice(list(STUBS))}/load")
        ready = await self._ready()
        await self._rig.end(signal.SIGKILL)
        await asyncio.sleep(EXITS_S)
        kept, before = ready & self._running(), self._rig.log.stat().st_size
        await self._rig.start()
        if not await until(lambda: kept <= self._adopted_since(before)):
            lost = kept - self._adopted_since(before)
            self._trouble.append(f"after a crash these servers were not adopted: {lost}")
        self._crashes, self._kept = self._crashes + 1, self._kept + len(kept)
        await self._configure(0)

    async def _configure(self, grace_s: int) -> None:
        """Return when that is in force."""
        self._rig.grace = f"{grace_s}s" if grace_s else ""
        self._rig.write()
        self._rig.reload()
        begun = time.monotonic()
        while await self._grace_s() != grace_s:
            if time.monotonic() > begun + QUIET_WITHIN_S:
                return self._trouble.append(f"a crashGrace of {grace_s} s was not applied")
            await asyncio.sleep(0.02)
        return None

    async def _grace_s(self) -> float | None:
        """None: there is no answer."""
        config = await self._rig.ask("GET", "/hotseat/config")
        return float(config["resolved"]["settings"]["crashGrace"]) if config else None

    async def _ready(self) -> set[int]:
        models = (await self._rig.ask("GET", "/hotseat/models") or {"models": []})["models"]
        return {each["pid"] for each in models if each["phase"] in READY and each["model"] in STUBS}

    def _running(self) -> set[int]:
        return {pid for model in STUBS for pid in self._rig.servers(model)}

    def _adopted_since(self, position: int) -> set[int]:
        with self._rig.log.open("rb") as log:
            log.seek(position)
            return adopted_in(log.read().decode(errors="replace"))
