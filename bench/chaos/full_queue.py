"""Clients that keep the queue full across restarts: whoever has a place in it must be answered.

Each has an address of its own, by which hotseat's list of waiting requests names it, and one request at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import TYPE_CHECKING

from bench.chaos.client import Client, End
from bench.chaos.requests import Behaviour, Kind, PlannedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.chaos.client import RequestResult
    from bench.chaos.hotseat_process import HotseatProcess
    from bench.chaos.injecting import Injected

NARROW = "white"
"""The model that they wait for."""
PLACES = 5
"""Of the queue; everything fits, so that hardly anybody else waits."""
SETTINGS = {"concurrencyLimit": 1}
CLIENTS = 8
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
        client = Client(self._rig.port, self._rig.name, address)
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
