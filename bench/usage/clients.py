"""Clients that keep their connections and note what they receive completely, and what the file of usage says."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from collections import defaultdict
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from bench.usage.upstream import FORMATS, read_message, request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NOTHING = (0, 0, 0, 0)
Sums = dict[tuple[str, str], tuple[int, ...]]
"""Requests, prompt, cached and completion tokens of each model and key."""


class Counts(NamedTuple):
    """Of one request."""

    model: str
    key: str
    prompt: int
    cached: int
    completion: int


class Received(NamedTuple):
    at: float
    counts: Counts


class Comparison(NamedTuple):
    """After one process has ended."""

    received: int
    """Requests answered completely while it ran."""
    missing: int
    """Of these, those that are not in the file."""
    recent: int
    """Requests that may be missing, because they were received shortly before."""
    broken: int
    """Requests that its end broke off; it may have counted them."""
    wrong: list[str]


class Book:
    """What clients received while one process ran."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.broken: list[Counts] = []
        self.open = 0
        """Requests that have not ended."""

    def add(self, counts: Counts) -> None:
        self.received.append(Received(time.monotonic(), counts))

    def compare(self, before: Sums, stored: Sums, until: float) -> Comparison:
        """`before`: what the file had when the process began. `until`: what was received later may be missing."""
        surely = summed((each.counts for each in self.received if each.at <= until), before)
        received = summed((each.counts for each in self.received), before)
        at_most = summed(self.broken, received)
        wrong = [
            f"{place}: {stored.get(place, NOTHING)} is stored, but {least} to {at_most[place]} were received"
            for place, least in {**dict.fromkeys(at_most, NOTHING), **surely}.items()
            if not fits(least, stored.get(place, NOTHING), at_most[place])
        ]
        wrong += [f"{place}: nobody asked for this" for place in stored if place not in at_most]
        recent = sum(each.at > until for each in self.received)
        return Comparison(
            len(self.received), requests_in(received) - requests_in(stored), recent, len(self.broken), wrong
        )


def fits(least: tuple[int, ...], found: tuple[int, ...], most: tuple[int, ...]) -> bool:
    return all(low <= each <= high for low, each, high in zip(least, found, most, strict=True))


def summed(all_counts: Iterable[Counts], before: Sums) -> Sums:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 4)
    for place, counts in before.items():
        sums[place] = list(counts)
    for each in all_counts:
        for at, count in enumerate((1, each.prompt, each.cached, each.completion)):
            sums[each.model, each.key][at] += count
    return {place: tuple(counts) for place, counts in sums.items()}


def requests_in(sums: Sums) -> int:
    return sum(counts[0] for counts in sums.values())


def stored_in(file: Path) -> Sums:
    """Read without hotseat's code. A process that was killed at once may have left no table."""
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as opened:
        if not opened.execute("select 1 from sqlite_master where name = 'usage'").fetchone():
            return {}
        rows = opened.execute(
            "select model, key, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)"
            " from usage group by model, key"
        )
        return {(model, key): tuple(counts) for model, key, *counts in rows}


CLIENTS = 24
AGAIN_S = 0.05
"""While hotseat is down."""
MODELS = ("local", "far/one", "far/two")
KEYS = {"ann": "key-of-ann-of-16-characters", "ci": "key-of-ci-of-16-characters", "web": "key-of-web-of-16-characters"}


class Clients:
    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._rng = random.Random(seed)
        self.book = Book()
        """Replaced whenever hotseat has ended."""
        self.answered = 0
        self.refused: list[str] = []

    async def run(self, requests: int) -> None:
        """Until so many are answered."""
        await asyncio.gather(*(self._one(requests) for _ in range(CLIENTS)))

    async def _one(self, requests: int) -> None:
        while self.answered < requests and not self.refused:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    while self.answered < requests and not self.refused:
                        await self._exchange(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(AGAIN_S)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts, book = self._counts(), self.book
        book.open += 1
        try:
            writer.write(self._message(counts))
            first, body = await read_message(reader)
        except (OSError, asyncio.IncompleteReadError):
            book.broken.append(counts)
            raise
        finally:
            book.open -= 1
        if b" 200 " in first:
            self.answered += 1
            book.add(counts)
        else:
            self.refused.append(f"{first.decode()}: {body.decode()}")

    def _counts(self) -> Counts:
        prompt = self._rng.randint(1, 9000)
        model, key = self._rng.choice(MODELS), self._rng.choice(list(KEYS))
        return Counts(model, key, prompt, self._rng.randint(0, prompt), self._rng.randint(1, 900))

    def _message(self, counts: Counts) -> bytes:
        path, body = request(self._rng.choice(FORMATS), counts)
        data = json.dumps(body)
        lines = (
            f"POST {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {KEYS[counts.key]}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        )
        return "\r\n".join([*lines, "", data]).encode()
