"""An in-process store that counts operations, and can delay those on claims."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from tests.support.in_process_store import InProcess

from hotseat.fleet.store import Bucket

if TYPE_CHECKING:
    from tests.support.in_process_store import Board

    from hotseat.fleet.store import Revision, Written


class CountingStore(InProcess):
    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self.done: Counter[tuple[str, Bucket]] = Counter()
        """Operations that were begun, by verb and bucket."""
        self.lets_through = asyncio.Event()
        """While it is cleared, operations on claims wait."""
        self.lets_through.set()

    def count(self, bucket: Bucket) -> dict[str, int]:
        return {verb: n for (verb, each), n in self.done.items() if each is bucket}

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        await self._begun("create", bucket)
        return await super().create(bucket, key, value)

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        await self._begun("put", bucket)
        return await super().put(bucket, key, value)

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        await self._begun("read", bucket)
        return await super().read(bucket, key)

    async def _begun(self, verb: str, bucket: Bucket) -> None:
        self.done[verb, bucket] += 1
        if bucket is Bucket.CLAIMS:
            await self.lets_through.wait()
