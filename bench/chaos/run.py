"""One run: a house, many clients, an injector; then quiet, and a look at what is left."""

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
from bench.chaos.faults import Injector
from bench.chaos.house import House, send_signal
from bench.chaos.wishes import REAL, Kind, Manner, Wish, draw
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from bench.chaos.client import Told

CLIENTS = 40
LONGEST_THOUGHT_S = 0.05
UNREACHED_S = 0.3
"""How long a client waits before it tries an address again where nobody listened."""
QUIET_WITHIN_S = 30.0
SPARE_DESCRIPTORS = 8
"""What may be open in a quiet house that was not at its start: connections that rest."""
BUGS = ("Traceback", "ERROR background work failed")
"""How lines of the log begin that only a bug can write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    seconds: float
    lives: int
    evidence: Evidence
    violations: list[str]


async def run(seed: int, seconds: float, most: int | None, say: Callable[[str], None]) -> Outcome:
    """Chaos for so many seconds, or until so many requests were made."""
    with tempfile.TemporaryDirectory(prefix="hotseat-chaos-") as folder:
        house = House(Path(folder))
        try:
            return await Run(house, seed, most, say).play(seconds)
        finally:
            for pid in house.processes():
                send_signal(pid, signal.SIGKILL)


class Run:
    def __init__(self, house: House, seed: int, most: int | None, say: Callable[[str], None]) -> None:
        self._house, self._seed, self._most, self._say = house, seed, most, say
        self._injector = Injector(house, random.Random(f"{seed}/injector"))
        self._told: list[Told] = []
        self._is_over = asyncio.Event()

    async def play(self, seconds: float) -> Outcome:
        began = time.monotonic()
        self._house.write()
        await self._house.start()
        idle = self._house.descriptors()
        reference = await self._reference()
        await self._storm(seconds)
        problems = [*self._injector.trouble, *[problem async for problem in self._left_behind(idle)], *self._bugs()]
        if self._injector.asked_thief:
            problems.append(f"{self._injector.asked_thief} requests went to a stranger on a stolen port")
        record = read_record(self._house.folder / "moods" / "record")
        evidence = Evidence(self._told, record, self._injector.injected, reference)
        found = [*problems, *violations(evidence)]
        return Outcome(self._seed, time.monotonic() - began, self._house.lives, evidence, found)

    async def _reference(self) -> str:
        """What the real model says while nothing is wrong."""
        told = await Client(self._house.port).ask(Wish("calm", REAL, Kind.UNARY, "", Manner.PATIENT, 8, 0))
        if told.end is not End.WHOLE:
            raise AssertionError(f"the real model does not answer a calm house: {told}")
        return told.text

    # The storm

    async def _storm(self, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            injector = group.create_task(self._injector.run())
            clients = [group.create_task(self._be_client(n)) for n in range(CLIENTS)]
            ticker = group.create_task(self._tell_progress())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
            self._is_over.set()
            injector.cancel()
            ticker.cancel()
            await asyncio.wait(clients)

    async def _be_client(self, n: int) -> None:
        dice = random.Random(f"{self._seed}/{n}")
        client = Client(self._house.port)
        for count in itertools.count():
            if self._is_over.is_set():
                break
            told = await client.ask(draw(dice, f"{n}-{count}"))
            self._told.append(told)
            if self._most is not None and len(self._told) >= self._most:
                self._is_over.set()
            await asyncio.sleep(UNREACHED_S if told.end is End.UNREACHED else dice.uniform(0, LONGEST_THOUGHT_S))
        client.close()

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(10)
            self._say(f"{len(self._told)} requests, {len(self._injector.injected)} faults")

    # The quiet after it

    async def _left_behind(self, idle: int) -> AsyncIterator[str]:
        """Nobody waits, nothing is in flight, no descriptor is left open, and no process outlives the house."""
        if problem := await self._unquiet():
            yield problem
        for model in await self._running():
            await self._house.ask("DELETE", f"/upstream/{model}")
        if not await until(lambda: self._house.descriptors() <= idle + SPARE_DESCRIPTORS):
            yield f"{self._house.descriptors()} descriptors are open in a quiet house, {idle} were at its start"
        code = await self._house.end(signal.SIGTERM)
        if code != 0:
            yield f"hotseat ended with {code} at last"
        if left := self._house.processes():
            yield f"these outlived hotseat: {[command_line(pid) for pid in left]}"

    async def _unquiet(self) -> str | None:
        queue = models = None
        begun = time.monotonic()
        while time.monotonic() < begun + QUIET_WITHIN_S:
            queue, models = (
                await self._house.ask("GET", "/hotseat/queue"),
                await self._house.ask("GET", "/hotseat/models"),
            )
            if queue and models and not queue["waiting"] and not any(m["in_flight"] for m in models["models"]):
                return None
            await asyncio.sleep(0.1)
        return f"the house does not come to rest: {queue} {models}"

    async def _running(self) -> list[str]:
        return list((await self._house.ask("GET", "/running"))["running"])

    def _bugs(self) -> Iterator[str]:
        """Lines of the log that only a bug can have written."""
        lines = self._house.log.read_text(errors="replace").splitlines()
        for n, line in enumerate(lines):
            if line.startswith(BUGS):
                yield "in the log: " + " | ".join(lines[n : n + 30])


async def until(fact: Callable[[], bool]) -> bool:
    begun = time.monotonic()
    while not fact():
        if time.monotonic() > begun + QUIET_WITHIN_S:
            return False
        await asyncio.sleep(0.05)
    return True
