"""A client that keeps a websocket open across restarts; each of its messages must come back once."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.chaos.client import End, RequestResult
from bench.chaos.requests import PATIENCE_S, Behaviour, Kind, PlannedRequest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from websockets.asyncio.client import ClientConnection

LENGTHS = (1, 8, 400, 6_000)
"""In words: a message for each length of a frame's header."""
LONGEST_PAUSE_S = 0.3
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
                    await asyncio.sleep(self._rng.uniform(0, LONGEST_PAUSE_S))
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


def in_words(clients: Iterable[WebsocketClient]) -> str:
    held = [each for client in clients for each in client.held]
    across, messages = [each.restarts for each in held if each.restarts], sum(each.messages for each in held)
    longest = f"{len(across)} of them open across restarts, up to {max(across, default=0)}"
    return f"websockets: {len(held)} with {messages} messages, {longest}"
