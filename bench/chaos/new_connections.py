"""What new connections see of restarts, measured by probe.py."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from bench.chaos.injecting import Injected

PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, slots=True)
class NewConnection:
    began: float
    took_s: float
    problem: str
    """Empty: it was answered."""

    def overlaps(self, restart: Injected) -> bool:
        return self.began <= restart.ended and restart.began <= self.began + self.took_s


@dataclass(slots=True)
class NewConnections:
    seen: list[NewConnection] = field(default_factory=list)

    @asynccontextmanager
    async def probed(self, port: int) -> AsyncIterator[None]:
        """Open one after the other meanwhile."""
        command = sys.executable, "-I", "-S", str(PROBE), str(port)
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        try:
            yield
        finally:
            self.seen += await results_of(process)

    @property
    def problems(self) -> list[str]:
        return [f"a new connection failed: {each.problem}" for each in self.seen if each.problem]

    def in_words(self, restarts: Sequence[Injected]) -> Iterator[str]:
        """All of them, and what a restart adds: from the signal until the new process serves."""
        by_time: dict[bool, list[NewConnection]] = {True: [], False: []}
        for each in self.seen:
            by_time[any(each.overlaps(restart) for restart in restarts)].append(each)
        yield f"new connections: {figures(self.seen)}"
        yield f"  during a restart: {figures(by_time[True])}"
        yield f"  otherwise: {figures(by_time[False])}"


async def results_of(process: Process) -> Iterator[NewConnection]:
    """Ends it, by closing its input."""
    output, _ = await process.communicate(b"")
    return (NewConnection(*each) for each in json.loads(output))


def figures(seen: Iterable[NewConnection]) -> str:
    times_ms = sorted(each.took_s * 1000 for each in seen)
    if len(times_ms) < 2:
        return str(len(times_ms))
    per_cent = quantiles(times_ms, n=100, method="inclusive")
    return f"{len(times_ms)}, p50 {per_cent[49]:.1f} ms, p99 {per_cent[98]:.1f} ms, longest {times_ms[-1]:.1f} ms"
