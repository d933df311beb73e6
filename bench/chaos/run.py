"""One run: hosts, many clients and an injector; then a pause, and a check of what is left."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.checker import Evidence, read_record, violations
from bench.chaos.client import Client, End
from bench.chaos.faults import FaultInjector
from bench.chaos.hotseat_process import QUIET_WITHIN_S, HotseatProcess, send_signal, until
from bench.chaos.requests import REAL, Behaviour, Kind, PlannedRequest, draw
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from bench.chaos.client import RequestResult
    from bench.chaos.injecting import Injector

LONGEST_THOUGHT_S = 0.05
UNREACHED_S = 0.3
"""How long a client waits before it retries an address where nobody listened."""
SPARE_DESCRIPTORS = 8
"""Descriptors that may be open in an idle hotseat beyond those at its start: idle connections."""
RESTLESSNESS = 0.3
"""The probability that a client asks another host next, if there are several."""
LINES_SHOWN = 20
BUGS = ("Traceback", "ERROR background work failed")
"""Prefixes of log lines that only a bug can write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    seconds: float
    lives: int
    evidence: Evidence
    violations: list[str]
    notes: Sequence[str] = ()
    """Other measurements."""


async def run(seed: int, seconds: float, most: int | None, say: Callable[[str], None]) -> Outcome:
    """Chaos for so many seconds, or until so many requests were made."""
    with tempfile.TemporaryDirectory(prefix="hotseat-chaos-") as folder:
        rig = HotseatProcess(Path(folder))
        injector = FaultInjector(rig, random.Random(f"{seed}/injector"))
        try:
            return await Run([rig], injector, seed, most, say).play(seconds)
        finally:
            for pid in rig.processes():
                send_signal(pid, signal.SIGKILL)


class Run:
    CLIENTS = 40

    def __init__(
        self, rigs: list[HotseatProcess], injector: Injector, seed: int, most: int | None, say: Callable[[str], None]
    ) -> None:
        self._rigs, self._injector = rigs, injector
        self._seed, self._most, self._say = seed, most, say
        self._results: list[RequestResult] = []
        self._notes: list[str] = []
        self._is_over = asyncio.Event()

    async def play(self, seconds: float) -> Outcome:
        began = time.monotonic()
        await self._open()
        idle = {rig.name: rig.descriptors() for rig in self._rigs}
        reference = await self._reference()
        problems = [problem async for problem in self._calm()]
        await self._storm(seconds)
        problems += [*self._injector.trouble, *[problem async for problem in self._healed()]]
        for rig in self._rigs:
            problems += [problem async for problem in self._left_behind(rig, idle[rig.name])]
            problems += bugs(rig)
        record = [line for rig in self._rigs for line in read_record(rig.folder / "stubs" / "record")]
        evidence = Evidence(self._results, record, self._injector.injected, reference)
        found = [*problems, *violations(evidence)]
        lives = sum(rig.lives for rig in self._rigs)
        return Outcome(
            self._seed, time.monotonic() - began, lives, evidence, found, [*self._notes, *self._injector.notes]
        )

    async def _open(self) -> None:
        for rig in self._rigs:
            rig.write()
        await asyncio.gather(*(rig.start() for rig in self._rigs))

    async def _reference(self) -> str:
        """The answer of the real model while no fault is injected."""
        result = await Client(self._rigs[0].port).ask(
            PlannedRequest("calm", REAL, Kind.UNARY, "", Behaviour.PATIENT, 8, 0)
        )
        if result.end is not End.WHOLE:
            raise AssertionError(f"the real model does not answer without faults: {result}")
        return result.text

    async def _calm(self) -> AsyncIterator[str]:
        """What is wrong before any fault; for subclasses."""
        return
        yield

    async def _healed(self) -> AsyncIterator[str]:
        """What is still wrong after all faults; for subclasses."""
        return
        yield

    # Faults

    async def _storm(self, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._injector.run(self._is_over))
            clients = [group.create_task(self._be_client(n)) for n in range(self.CLIENTS)]
            ticker = group.create_task(self._tell_progress())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
            self._is_over.set()
            ticker.cancel()
            await asyncio.wait(clients)

    async def _be_client(self, n: int) -> None:
        rng = random.Random(f"{self._seed}/{n}")
        client = Client(self._rigs[0].port, self._rigs[0].name)
        for count in itertools.count():
            if self._is_over.is_set():
                break
            if rng.random() < RESTLESSNESS:
                rig = rng.choice(self._rigs)
                client.go_to(rig.port, rig.name)
            result = await client.ask(draw(rng, f"{n}-{count}"))
            self._results.append(result)
            if self._most is not None and len(self._results) >= self._most:
                self._is_over.set()
            await asyncio.sleep(UNREACHED_S if result.end is End.UNREACHED else rng.uniform(0, LONGEST_THOUGHT_S))
        client.close()

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(10)
            self._say(f"{len(self._results)} requests, {len(self._injector.injected)} faults")

    # Afterwards

    async def _left_behind(self, rig: HotseatProcess, idle: int) -> AsyncIterator[str]:
        """No request waits or runs, no descriptor is left open, and no process outlives hotseat."""
        if problem := await unquiet(rig):
            yield problem
        for model in await running(rig):
            await rig.ask("DELETE", f"/upstream/{model}")
        spare = SPARE_DESCRIPTORS * len(self._rigs)
        if not await until(lambda: rig.descriptors() <= idle + spare):
            yield f"{rig.descriptors()} descriptors are open in quiet {rig.name}, {idle} were at its start"
        code = await rig.end(signal.SIGTERM)
        if code != 0:
            yield f"{rig.name} ended with {code} at last"
        if left := rig.processes():
            yield f"these outlived {rig.name}: {[command_line(pid) for pid in left]}"


async def unquiet(rig: HotseatProcess) -> str | None:
    queue = models = None
    begun = time.monotonic()
    while time.monotonic() < begun + QUIET_WITHIN_S:
        queue, models = await rig.ask("GET", "/hotseat/queue"), await rig.ask("GET", "/hotseat/models")
        if queue and models and not queue["waiting"] and not any(m["in_flight"] for m in models["models"]):
            return None
        await asyncio.sleep(0.1)
    return f"{rig.name} does not come to rest: {queue} {models}"


async def running(rig: HotseatProcess) -> list[str]:
    return list((await rig.ask("GET", "/running"))["running"])


def bugs(rig: HotseatProcess) -> Iterator[str]:
    """Log lines that only a bug can have written."""
    lines = rig.log.read_text(errors="replace").splitlines()
    for n, line in enumerate(lines):
        if line.startswith(BUGS):
            end = next((m for m in range(n + 1, len(lines)) if not lines[m].startswith(" ")), len(lines))
            yield f"in the log of {rig.name}: " + " | ".join(lines[max(n, end - LINES_SHOWN) : end + 1])
