"""Clients that must not notice restarts: they keep the queue full, hold websockets open, and open new connections.

Whoever has a place in the queue must be answered. Each client of the queue has an address of its own, by which
hotseat's list of waiting requests names it, and one request at a time. Each message of a websocket must come back once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from bench.chaos.client import Client, End, RequestResult
from bench.chaos.requests import PATIENCE_S, Behaviour, Kind, PlannedRequest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from bench.chaos.hotseat_process import HotseatProcess
    from bench.chaos.injecting import Injected
    from websockets.asyncio.client import ClientConnection

NARROW = "white"
"""The model that they wait for."""
PLACES = 5
"""Of the queue; everything fits, so that hardly anybody else waits."""
QUEUE_SETTINGS = {"concurrencyLimit": 1}
QUEUE_CLIENTS = 8
WORDS = (40, 100, 300)
"""Of slow streams, which take a tenth of a second to a whole one."""
LONGEST_PAUSE_S = 0.4
LOOK_EVERY_S = 0.1
REFUSED = 429


class FullQueue:
    def __init__(self, rig: HotseatProcess, seed: str) -> None:
        self._rig, self._seed = rig, seed
        self.asking: dict[str, str] = {}
        """By address, the id of the request that its client makes now."""
        self._seen: dict[str, float] = {}
        """By id, when a request was first seen waiting."""
        self._lengths: list[int] = []
        """Of the queue, at each look."""
        self.results: list[RequestResult] = []

    async def be_client(self, n: int, is_over: asyncio.Event) -> None:
        rng, address = random.Random(f"{self._seed}/{n}"), f"127.0.1.{n + 1}"
        client = Client(self._rig.at, self._rig.name, address)
        for count in itertools.count():
            if is_over.is_set():
                break
            name, words = f"queue{n}-{count}", rng.choice(WORDS)
            self.asking[address] = name
            planned = PlannedRequest(name, NARROW, Kind.STREAM, "slow", Behaviour.PATIENT, words, 0)
            self.results.append(await client.ask(planned))
            del self.asking[address]
            await asyncio.sleep(rng.uniform(0, LONGEST_PAUSE_S))
        client.close()

    # Who waits

    async def look(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            before = dict(self.asking)
            if queue := await self._rig.ask("GET", "/hotseat/queue"):
                self.note(before, [each["client"] for each in queue["waiting"] if each["model"] == NARROW])
            await asyncio.sleep(LOOK_EVERY_S)

    def note(self, before: dict[str, str], waiting: Sequence[str]) -> None:
        """`before` was being asked when the list was; a request that came later may have no place."""
        self._lengths.append(len(waiting))
        for address in waiting:
            name = before.get(address)
            if name and name == self.asking.get(address):
                self._seen.setdefault(name, time.monotonic())

    # Afterwards

    @property
    def problems(self) -> Iterator[str]:
        for result in self.results:
            if result.planned.id in self._seen and result.end is not End.WHOLE:
                what = f"{result.end.value} {result.status} {result.text!r}"
                yield f"{result.planned.id} had a place in the queue and was not answered: {what}"

    def in_words(self, restarts: Iterable[Injected]) -> str:
        refused = sum(result.status == REFUSED for result in self.results)
        ends = [restart.ended for restart in restarts]
        kept = sum(any(self._waited_at(end, result) for end in ends) for result in self.results)
        full = sum(length >= PLACES for length in self._lengths)
        return (
            f"queue of {NARROW}: {len(self.results)} requests, {refused} refused because it was full,"
            f" {len(self._seen)} seen waiting, {kept} of them across a restart;"
            f" full at {full} of {len(self._lengths)} looks"
        )

    def _waited_at(self, end: float, result: RequestResult) -> bool:
        return self._seen.get(result.planned.id, end) < end < result.ended


LENGTHS = (1, 8, 400, 6_000)
"""In words: a message for each length of a frame's header."""
MESSAGE_PAUSE_S = 0.3
MOST_RESTARTS = 4
"""An old process lives as long as its last client, and every later process as long as the old one."""


@dataclass(frozen=True, slots=True)
class HeldOpen:
    """One websocket: how many messages were answered, and how many restarts there were meanwhile."""

    messages: int
    restarts: int


class WebsocketClient:
    def __init__(
        self,
        name: str,
        port: int,
        models: Sequence[str],
        rng: random.Random,
        restarts: Callable[[], int],
        record: Callable[[RequestResult], None],
    ) -> None:
        """`restarts` returns how many there were."""
        self._name, self._port, self._models, self._rng = name, port, models, rng
        self._restarts, self._record = restarts, record
        self._numbers = itertools.count()
        self._answered = 0
        self.held: list[HeldOpen] = []

    async def run(self, is_over: asyncio.Event) -> None:
        """One websocket after the other."""
        while not is_over.is_set():
            began, answered = self._restarts(), self._answered
            await self._hold(is_over, until=began + self._rng.randint(1, MOST_RESTARTS))
            self.held.append(HeldOpen(self._answered - answered, self._restarts() - began))

    async def _hold(self, is_over: asyncio.Event, until: int) -> None:
        """Open until there were so many restarts."""
        model = self._rng.choice(self._models)
        uri = f"ws://127.0.0.1:{self._port}/upstream/{model}/echo"
        message = self._next(model)  # in case that there is no connection
        try:
            async with connect(uri, compression=None, proxy=None, open_timeout=PATIENCE_S) as websocket:
                while self._restarts() < until and not is_over.is_set():
                    message = self._next(model)
                    self._record(message.answered(await message.echo(websocket)))
                    self._answered += 1
                    await asyncio.sleep(self._rng.uniform(0, MESSAGE_PAUSE_S))
            async for surplus in websocket:
                self._record(message.failed(End.BROKEN, f"a surplus message: {surplus[:80]!r}"))
        except (OSError, ConnectionClosed, InvalidHandshake) as problem:
            self._record(message.failed(*end_of(problem)))

    def _next(self, model: str) -> Message:
        words, name = self._rng.choice(LENGTHS), f"{self._name}-{next(self._numbers)}"
        return Message(PlannedRequest(name, model, Kind.MESSAGE, "", Behaviour.PATIENT, words, 0), time.monotonic())


@dataclass(frozen=True, slots=True)
class Message:
    planned: PlannedRequest
    began: float

    async def echo(self, websocket: ClientConnection) -> str:
        async with asyncio.timeout(PATIENCE_S):
            await websocket.send(self.planned.expected)
            return str(await websocket.recv())

    def answered(self, text: str) -> RequestResult:
        return RequestResult(self.planned, End.WHOLE, 200, text, self.began, time.monotonic())

    def failed(self, end: End, text: str, status: int = 101) -> RequestResult:
        return RequestResult(self.planned, end, status, text, self.began, time.monotonic())


def end_of(problem: Exception) -> tuple[End, str, int]:
    match problem:
        case InvalidStatus():
            return End.ERROR, (problem.response.body or b"").decode(), problem.response.status_code
        case ConnectionClosed():
            return End.BROKEN, repr(problem), 101
        case TimeoutError():
            return End.TOO_LATE, repr(problem), 0
        case InvalidHandshake():
            return End.SILENT, repr(problem), 0
    return End.UNREACHED, repr(problem), 0


def websockets_in_words(clients: Iterable[WebsocketClient]) -> str:
    held = [each for client in clients for each in client.held]
    across, messages = [each.restarts for each in held if each.restarts], sum(each.messages for each in held)
    longest = f"{len(across)} of them open across restarts, up to {max(across, default=0)}"
    return f"websockets: {len(held)} with {messages} messages, {longest}"


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
