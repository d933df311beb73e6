"""Faults of saved conversations: servers killed while they write or read one, damaged files, no disk."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.chaos.client import Client
from bench.chaos.hotseat_process import send_signal
from bench.chaos.requests import REAL, Behaviour, Kind, PlannedRequest

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from bench.chaos.hotseat_process import HotseatProcess

WATCH_S = 3.0
"""How long a server is observed until it opens a conversation's file."""
LOOK_S = 0.2
TINY_FILE = 1 << 16


class ConversationFaults:
    def __init__(self, rig: HotseatProcess, rng: random.Random) -> None:
        self._rig, self._rng = rig, rng
        self.struck: Counter[str] = Counter()
        """How often a server was killed at that moment: a save takes milliseconds."""

    async def kill_while_saving(self) -> None:
        await self._converse()
        watching = asyncio.to_thread(self._kill_when_open, "saving")
        await asyncio.gather(watching, self._rig.ask("DELETE", f"/upstream/{REAL}"))

    async def kill_while_restoring(self) -> None:
        await self._converse()
        await self._rig.ask("DELETE", f"/upstream/{REAL}")
        watching = asyncio.to_thread(self._kill_when_open, "restoring")
        await asyncio.gather(watching, self._rig.ask("GET", f"/upstream/{REAL}/load"))

    async def truncate(self) -> None:
        for path in self._files():
            with suppress(FileNotFoundError):
                os.truncate(path, self._rng.randrange(path.stat().st_size + 1))

    async def fill_disk(self) -> None:
        """Limit the size of the server's files: writing more than that ends it, as some full disks do."""
        for pid in self._rig.servers(REAL):
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (TINY_FILE, TINY_FILE))
        await self._rig.ask("DELETE", f"/upstream/{REAL}")

    async def _converse(self) -> None:
        """Have something to save, if the real model can be reached."""
        client = Client(self._rig.port)
        await client.ask(PlannedRequest("saved", REAL, Kind.UNARY, "", Behaviour.PATIENT, 8, 0))
        client.close()

    def _files(self) -> list[Path]:
        return [path for path in self._rig.cache.rglob("*") if path.is_file()]

    def _kill_when_open(self, doing: str) -> None:
        until = time.monotonic() + WATCH_S
        while time.monotonic() < until:
            for pid in self._rig.servers(REAL):
                if self._is_open_soon(pid):
                    send_signal(pid, signal.SIGKILL)
                    self.struck[doing] += 1
                    return

    def _is_open_soon(self, pid: int) -> bool:
        """Whether the process opens a conversation's file within the time for which its pid is not looked up again."""
        until = time.monotonic() + LOOK_S
        with suppress(OSError):
            while time.monotonic() < until:
                if any(path.startswith(f"{self._rig.cache}/") for path in open_files(pid)):
                    return True
        return False


def open_files(pid: int) -> list[str]:
    return [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
