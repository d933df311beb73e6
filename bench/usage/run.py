"""One run: clients ask all the time, and hotseat is killed and started again."""

from __future__ import annotations

import asyncio
import math
import shlex
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.usage.clients import KEYS, MODELS, Book, Clients, Comparison, Sums, stored_in
from bench.usage.upstream import upstream
from tests.support.llama import REPOSITORY
from tests.support.ports import free_port
from tests.support.waiting import come_true

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.hotseat import Hotseat

LONGEST_S = 3600.0


@dataclass
class Outcome:
    seconds: float = 0.0
    comparisons: list[Comparison] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def received(self) -> int:
        return sum(each.received for each in self.comparisons)

    @property
    def holds(self) -> bool:
        return not self.refused and not any(each.wrong for each in self.comparisons)

    def text(self) -> str:
        *kills, end = self.comparisons
        lines = [f"{self.received} requests in {self.seconds:.1f} s, {len(kills)} kills"]
        lines += [
            f"kill {n}: {each.received} answered since the start, {each.missing} of them missing;"
            f" {each.recent} were answered in the last second, {each.broken} were broken off"
            for n, each in enumerate(kills, 1)
        ]
        lines.append(f"stop: {end.received} answered since the start, {end.missing} of them missing")
        lines += [sentence for each in self.comparisons for sentence in each.wrong] + self.refused[:5]
        return "\n".join([*lines, "holds" if self.holds else "does not hold"])


class Run:
    def __init__(self, folder: Path, kind: type[Hotseat], seed: int, may_lose_s: float = 1.0) -> None:
        """`may_lose_s`: what was received so shortly before a kill may be missing."""
        self._folder, self._kind, self._may_lose_s = folder, kind, may_lose_s
        self._port = free_port()
        self._clients = Clients(self._port, seed)
        self._stored: Sums = {}
        self._outcome = Outcome()

    async def play(self, requests: int, kills: int) -> Outcome:
        """Until so many are answered."""
        begun = time.monotonic()
        async with upstream() as port, asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(self._clients.run(requests))
            for n in range(1, kills + 1):
                await self._live(port, requests * n // (kills + 1))
            await self._end(port, asking)
        self._outcome.seconds = time.monotonic() - begun
        self._outcome.refused = self._clients.refused
        return self._outcome

    async def _live(self, port: int, until: int) -> None:
        """Until so many requests are answered; then it is killed."""
        hotseat = await self._started(port)
        await come_true(lambda: self._clients.answered >= until or bool(self._clients.refused), within=LONGEST_S)
        killed_at = time.monotonic()
        hotseat.process.kill()
        await asyncio.to_thread(hotseat.process.wait, 60)
        await come_true(lambda: not self._clients.book.open)  # what it had sent is received meanwhile
        self._compare(killed_at - self._may_lose_s)

    async def _end(self, port: int, asking: asyncio.Task[None]) -> None:
        hotseat = await self._started(port)
        await asking
        await asyncio.to_thread(hotseat.__exit__, None)
        self._compare(math.inf)

    async def _started(self, port: int) -> Hotseat:
        hotseat = self._kind(config(port), self._folder, port=self._port)
        return await asyncio.to_thread(hotseat.__enter__)

    def _compare(self, until: float) -> None:
        book, self._clients.book = self._clients.book, Book()
        stored = stored_in(self._folder / "state/hotseat/usage.sqlite3")
        self._outcome.comparisons.append(book.compare(self._stored, stored, until))
        self._stored = stored


def config(port: int) -> dict[str, object]:
    """A local model and two of a peer."""
    local, *far = MODELS
    command = f"{shlex.quote(sys.executable)} -m bench.usage.upstream ${{PORT}}"
    environment = [f"PYTHONPATH={REPOSITORY}"]
    names = [name.partition("/")[2] for name in far]
    return {
        "apiKeys": [{"name": name, "key": key} for name, key in KEYS.items()],
        "models": {local: {"cmd": command, "checkEndpoint": "none", "env": environment}},
        "peers": {"far": {"proxy": f"http://127.0.0.1:{port}", "models": names}},
    }
