"""One run: hosts, many clients and an injector; then a pause, and a check of what is left."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.chaos.checker import HONEST, Evidence, bugs_in, read_record, violations
from bench.chaos.client import Client, End
from bench.chaos.conversation_faults import ConversationInjector, files, parts
from bench.chaos.faults import FaultInjector
from bench.chaos.hotseat_process import QUIET_WITHIN_S, HotseatProcess, send_signal, until
from bench.chaos.requests import PROMPTS, REAL, Behaviour, Kind, PlannedRequest, draw
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from bench.chaos.client import RequestResult
    from bench.chaos.injecting import Injector

LOGS = Path("/var/tmp")
"""Where those of a run with violations are kept: its own folder for temporary files is removed."""
LONGEST_THOUGHT_S = 0.05
UNREACHED_S = 0.3
"""How long a client waits before it retries an address where nobody listened."""
SPARE_DESCRIPTORS = 8
"""Descriptors that may be open in an idle hotseat beyond those at its start: idle connections."""
RESTLESSNESS = 0.3
"""The probability that a client asks another host next, if there are several."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    seconds: float
    lives: int
    evidence: Evidence
    violations: list[str]
    notes: Sequence[str] = ()
    """Other measurements."""


async def run(
    seed: int, seconds: float, most: int | None, say: Callable[[str], None], *, only_conversations: bool = False
) -> Outcome:
    """Chaos for so many seconds, or until so many requests were made."""
    with tempfile.TemporaryDirectory(prefix="hotseat-chaos-") as folder:
        rig, rng = HotseatProcess(Path(folder)), random.Random(f"{seed}/injector")
        injector = ConversationInjector(rig, rng) if only_conversations else FaultInjector(rig, rng)
        kind = FewClients if only_conversations else Run
        try:
            return await kind([rig], injector, seed, most, say).play(seconds)
        finally:
            for pid in rig.processes():
                send_signal(pid, signal.SIGKILL)


class Run:
    CLIENTS = 40
    has_request_faults = True
    """Do model servers fail in some requests?"""
    honest: tuple[int, ...] = HONEST
    """The errors that clients may receive."""

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
        references = [await self._reference(prompt) for prompt in range(len(PROMPTS))]
        problems = [problem async for problem in self._calm()]
        await self._storm(seconds)
        problems += [*self._injector.trouble, *[problem async for problem in self._healed()]]
        for rig in self._rigs:
            problems += [problem async for problem in self._left_behind(rig, idle[rig.name])]
            log = rig.log.read_text(errors="replace")
            problems += [f"in the log of {rig.name}: {bug}" for bug in bugs_in(log)]
        record = [line for rig in self._rigs for line in read_record(rig.folder / "stubs" / "record")]
        results = [*self._results, *self._injector.asked]
        evidence = Evidence(results, record, self._injector.injected, references, self._rigs[0].budget_gib, self.honest)
        found = [*problems, *violations(evidence)]
        lives = sum(rig.lives for rig in self._rigs)
        notes = [*self._notes, *self._injector.notes, *([self._kept_logs()] if found else [])]
        return Outcome(self._seed, time.monotonic() - began, lives, evidence, found, notes)

    def _kept_logs(self) -> str:
        folder = Path(tempfile.mkdtemp(prefix="chaos-logs-", dir=LOGS))
        for rig in self._rigs:
            shutil.copy(rig.log, folder / f"{rig.name or 'hotseat'}.log")
        return f"the logs of the run are in {folder}"

    async def _open(self) -> None:
        for rig in self._rigs:
            rig.write()
        await asyncio.gather(*(rig.start() for rig in self._rigs))

    async def _reference(self, prompt: int) -> str:
        """The answer of the real model while no fault is injected."""
        result = await Client(self._rigs[0].at).ask(
            PlannedRequest("calm", REAL, Kind.UNARY, "", Behaviour.PATIENT, 8, 0, prompt)
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
            clients = [group.create_task(client) for client in self._clients()]
            ticker = group.create_task(self._tell_progress())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
            self._is_over.set()
            ticker.cancel()
            await asyncio.wait(clients)

    def _clients(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield from (self._be_client(n) for n in range(self.CLIENTS))

    async def _be_client(self, n: int) -> None:
        rng = random.Random(f"{self._seed}/{n}")
        client = Client(self._rigs[0].at, self._rigs[0].name)
        for count in itertools.count():
            if self._is_over.is_set():
                break
            if rng.random() < RESTLESSNESS:
                rig = rng.choice(self._rigs)
                client.go_to(rig.at, rig.name)
            planned = draw(rng, f"{n}-{count}")
            result = await client.ask(planned if self.has_request_faults else replace(planned, fault=""))
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
        """No request waits or runs, no descriptor is left open, and neither process nor file outlives hotseat."""
        if problem := await unquiet(rig):
            yield problem
        for model in await running(rig):
            await rig.ask("DELETE", f"/upstream/{model}")
        if not await until(lambda: not parts(rig)):
            yield f"unfinished conversations are left: {parts(rig)}"
        spare = SPARE_DESCRIPTORS * len(self._rigs)
        if not await until(lambda: rig.descriptors() <= idle + spare):
            yield f"{rig.descriptors()} descriptors are open in quiet {rig.name}, {idle} were at its start"
        code = await rig.end(signal.SIGTERM)
        if code != 0:
            yield f"{rig.name} ended with {code} at last"
        if left_files := files(rig):
            yield f"{rig.name} has left saved conversations: {left_files}"
        if left := rig.processes():
            yield f"these outlived {rig.name}: {[command_line(pid) for pid in left]}"


class FewClients(Run):
    """The real model waits little for its memory, so that it is swapped often."""

    CLIENTS = 2


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
