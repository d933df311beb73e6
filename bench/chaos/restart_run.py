"""Restarts and crashes of hotseat under traffic.

No client may notice a restart. After a crash with a grace the model servers are kept, without one nothing survives.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.client import Client
from bench.chaos.hotseat_process import HotseatProcess, send_signal, until
from bench.chaos.injecting import RESTART, Injector
from bench.chaos.requests import REAL, STUBS, Behaviour, Kind, PlannedRequest
from bench.chaos.restart_clients import (
    NARROW,
    PLACES,
    QUEUE_CLIENTS,
    QUEUE_SETTINGS,
    REFUSED,
    FullQueue,
    NewConnections,
    WebsocketClient,
    websockets_in_words,
)
from bench.chaos.run import Outcome, Run
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
    from typing import Any

    from bench.chaos.client import RequestResult
    from bench.chaos.injecting import Injected
    from bench.chaos.run import Outcome

EVERYTHING_FITS_GIB = 64
MODELS = (*STUBS, REAL)
WIDE = [model for model in STUBS if model != NARROW]
WEBSOCKETS, LONG_CLIENTS = 4, 4
LONG_WORDS = 1_000
"""Of a slow stream, which takes three seconds."""


class RestartInjector(Injector):
    """Restarts hotseat again and again. Nothing that a client sees is explained by that."""

    def __init__(self, rig: HotseatProcess, rng: random.Random, times: int) -> None:
        super().__init__(rng)
        self._rig, self._times = rig, times
        self._faults = {RESTART: self._replace}
        self._connections = NewConnections()

    async def run(self, is_over: asyncio.Event) -> None:
        before = await all_loaded(self._rig)
        async with self._connections.probed(self._rig.port):
            while len(self.injected) < self._times and not is_over.is_set():
                await self.inject(RESTART)
                await asyncio.sleep(self._rng.random() * (self.injected[-1].ended - self.injected[-1].began))
            is_over.set()
        if servers_of(self._rig) != before:
            self.trouble.append(f"servers were replaced: {before} became {servers_of(self._rig)}")
        self.trouble += self._connections.problems

    async def _replace(self) -> None:
        if problem := await self._rig.restart():
            self.trouble.append(f"restart {len(self.injected) + 1} failed: {problem}")

    @property
    def notes(self) -> list[str]:
        return [f"restarts: {len(self.injected)}", *self._connections.in_words(self.injected)]


async def all_loaded(rig: HotseatProcess) -> dict[str, list[int]]:
    """The servers of all models, once they run: where a full queue refuses the load, its requests load the model."""
    for model in MODELS:
        await rig.ask("GET", f"/upstream/{model}/load")
    await until(lambda: all(servers_of(rig).values()))
    return servers_of(rig)


def servers_of(rig: HotseatProcess) -> dict[str, list[int]]:
    return {model: sorted(rig.servers(model)) for model in MODELS}


class QuietRun(Run):
    """Everything fits and no server fails, so that no server is ever replaced for another reason."""

    CLIENTS = 12
    has_request_faults = False


class RestartRun(QuietRun):
    """Besides, a full queue, websockets, and streams and uploads that take longer than the moment of a restart."""

    honest = (REFUSED,)

    def __init__(
        self, rig: HotseatProcess, injector: Injector, seed: int, most: int | None, say: Callable[[str], None]
    ) -> None:
        super().__init__([rig], injector, seed, most, say)
        self._rig = rig
        self._queue = FullQueue(rig, f"{seed}/queue")
        self._websockets = [self._websocket(f"websocket{n}") for n in range(WEBSOCKETS)]

    def _websocket(self, name: str) -> WebsocketClient:
        rng = random.Random(f"{self._seed}/{name}")
        restarts, record = lambda: len(self._injector.injected), self._results.append
        return WebsocketClient(name, self._rig.port, WIDE, rng, restarts, record)

    def _clients(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield from super()._clients()
        yield self._queue.look(self._is_over)
        yield from (self._queue.be_client(n, self._is_over) for n in range(QUEUE_CLIENTS))
        yield from (websocket.run(self._is_over) for websocket in self._websockets)
        yield from (self._be_long_client(n) for n in range(LONG_CLIENTS))

    async def _be_long_client(self, n: int) -> None:
        """A slow stream, a slow upload, and again."""
        client = Client(self._rig.at, self._rig.name, f"127.0.2.{n + 1}")
        for count in itertools.count():
            if self._is_over.is_set():
                break
            self._results.append(await client.ask(long_request(f"long{n}-{count}", WIDE[n % len(WIDE)], count)))
        client.close()

    async def _healed(self) -> AsyncIterator[str]:
        self._results += self._queue.results
        for problem in self._queue.problems:
            yield problem
        restarts = self._injector.injected
        self._notes += [across(self._results, restarts), self._queue.in_words(restarts)]
        self._notes.append(websockets_in_words(self._websockets))


def long_request(name: str, model: str, count: int) -> PlannedRequest:
    if count % 2:
        return PlannedRequest(name, model, Kind.UPLOAD, "", Behaviour.SLOW, count, 0)
    return PlannedRequest(name, model, Kind.STREAM, "slow", Behaviour.PATIENT, LONG_WORDS, 0)


def across(results: Sequence[RequestResult], restarts: Sequence[Injected]) -> str:
    """What the old processes had to finish."""
    kinds = Counter(
        result.planned.kind.value
        for restart in restarts
        for result in results
        if result.began < restart.ended < result.ended
    )
    return "in progress when a restart ended: " + ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))


class LightRun(RestartRun):
    """With fewer clients, so that two cores are not busy all the time: shows what a restart costs a new connection."""

    CLIENTS = 4


async def run_restarts(
    times: int, kind: type[RestartRun], seed: int, seconds: float, most: int | None, say: Callable[[str], None]
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="hotseat-restarts-") as folder:
        rig = HotseatProcess(Path(folder), budget_gib=EVERYTHING_FITS_GIB)
        rig.settings, rig.places = {NARROW: QUEUE_SETTINGS}, PLACES
        injector = RestartInjector(rig, random.Random(f"{seed}/injector"), times)
        return await played(rig, kind(rig, injector, seed, most, say), seconds)


async def played(rig: HotseatProcess, run: Run, seconds: float) -> Outcome:
    try:
        return await run.play(seconds)
    finally:
        for pid in rig.processes():
            send_signal(pid, signal.SIGKILL)


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
