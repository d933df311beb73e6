"""Clients that keep their connections, each with one request at a time, and note what they receive completely."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress

from bench.usage.counts import Book, Counts
from bench.usage.formats import FORMATS, request
from bench.usage.http import read_message

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
