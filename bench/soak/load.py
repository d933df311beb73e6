"""Mixed clients for hours: some chat, some disconnect in the middle, some send invalid requests, some only watch."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.chaos.client import Client, End
from bench.chaos.requests import Behaviour, Kind, PlannedRequest

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from bench.chaos.client import RequestResult

MODELS = {"alpha": 60, "beta": 35, "gamma": 5}
"""How often each is requested; two of them fit at a time."""
TALKERS, LEAVERS, WATCHERS = 5, 1, 1
PAUSE_S = 0.2
"""Mean pause of a client between two requests."""
FEED_S = 30.0
"""How long the events are followed before the watcher reconnects."""
NONSENSE = (b'{"model": "nobody", "messages": []}', b'{"model": ', b"[]", b'{"messages": []}')
PATHS = ("/v1/models", "/health", "/hotseat/models", "/hotseat/queue", "/hotseat/requests", "/metrics")


@dataclass(slots=True)
class Account:
    """The results of all clients since the last sample."""

    answered_s: list[float] = field(default_factory=list)
    """Latencies of complete answers that were not streamed."""
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, result: RequestResult) -> None:
        self.ends[result.end.value] += 1
        if result.end is End.WHOLE and result.planned.kind is Kind.UNARY:
            self.answered_s.append(result.ended - result.began)
        if result.end not in (End.WHOLE, End.LEFT):
            self.wrong.append(f"{result.end.value}: {result.status} {result.text[:200]}")

    def note_answer(self, status: int, expected: int, what: str) -> None:
        self.ends["complete response" if status < 400 else "error response"] += 1
        if status != expected:
            self.wrong.append(f"{what}: {status} instead of {expected}")


class LoadClients:
    """All clients at once, while the block runs."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._seed = port, seed
        self._account = Account()
        self._tasks = Tasks()

    async def __aenter__(self) -> LoadClients:
        for n in range(TALKERS):
            self._start(self._talk(random.Random(f"{self._seed}/talker/{n}"), Behaviour.PATIENT))
        for n in range(LEAVERS):
            self._start(self._talk(random.Random(f"{self._seed}/leaver/{n}"), Behaviour.HANGS_UP))
        for n in range(WATCHERS):
            self._start(self._look(random.Random(f"{self._seed}/watcher/{n}")))
        self._start(self._send_nonsense(random.Random(f"{self._seed}/nonsense")))
        self._start(self._follow())
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._tasks.aclose()

    def take_account(self) -> Account:
        account, self._account = self._account, Account()
        return account

    def _start(self, client: Coroutine[None, None, None]) -> None:
        self._tasks.start(client, "client")

    async def _talk(self, rng: random.Random, behaviour: Behaviour) -> None:
        client = Client(("127.0.0.1", self._port))
        while True:
            self._account.note(await client.ask(planned(rng, behaviour)))
            await asyncio.sleep(rng.expovariate(1 / PAUSE_S))

    async def _send_nonsense(self, rng: random.Random) -> None:
        while True:
            said = rng.choice(NONSENSE)
            expected = 404 if b"nobody" in said else 400
            self._account.note_answer(await self._post(said), expected, f"nonsense {said!r}")
            await asyncio.sleep(rng.expovariate(1 / PAUSE_S))

    async def _look(self, rng: random.Random) -> None:
        while True:
            path = rng.choice(PATHS)
            self._account.note_answer(await self._get(path), 200, path)
            await asyncio.sleep(rng.expovariate(1 / PAUSE_S))

    async def _follow(self) -> None:
        """Read the events repeatedly from the beginning, like a user who opens many pages in a day."""
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(b"GET /hotseat/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                async with asyncio.timeout(FEED_S):
                    while await reader.read(1 << 16):
                        pass
            except TimeoutError:
                writer.transport.abort()
            else:
                self._account.wrong.append("the events ended by themselves")
                await asyncio.sleep(1.0)

    async def _post(self, body: bytes) -> int:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        return await self._status(
            head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    async def _get(self, path: str) -> int:
        return await self._status(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    async def _status(self, said: bytes) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(said)
            answer = await reader.read(-1)
            return int(answer.split(b" ", 2)[1]) if answer else 0
        finally:
            writer.transport.abort()


def planned(rng: random.Random, behaviour: Behaviour) -> PlannedRequest:
    model = rng.choices([*MODELS], [*MODELS.values()])[0]
    kind = rng.choice([Kind.UNARY, Kind.STREAM])
    words = 400 if behaviour is Behaviour.HANGS_UP else rng.choice([4, 16, 64])
    return PlannedRequest("", model, kind, "", behaviour, words, rng.uniform(0.0, 1.0))
