"""A store whose calls complete only when the test lets them, so that any interleaving can be tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hotseat.fleet.store import Bucket, Change, Conflict, Revision, StoreError, Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Generator

Result = TypeVar("Result")


@coroutine
def turn() -> Generator[None, None, None]:
    """Suspend until the test continues this coroutine."""
    yield


@dataclass
class SteppedStore:
    """Revisions and conflicts as the interface promises; each call takes effect at one moment, after one turn."""

    is_connected: bool = True
    there: dict[tuple[Bucket, str], Written] = field(default_factory=dict)
    writes: int = 0

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        await self._moment()
        if (bucket, key) in self.there:
            raise Conflict(key)
        return self._write(bucket, key, value)

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        await self._moment()
        self._check(bucket, key, last)
        return self._write(bucket, key, value)

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        await self._moment()
        return self._write(bucket, key, value)

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        await self._moment()
        if last is not None:
            self._check(bucket, key, last)
        self.there.pop((bucket, key), None)

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        await self._moment()
        return self.there.get((bucket, key))

    def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        raise NotImplementedError("nobody watches a store that is stepped by hand")

    async def aclose(self) -> None:
        self.there.clear()

    async def _moment(self) -> None:
        await turn()
        if not self.is_connected:
            raise StoreError("the store is away")

    def _check(self, bucket: Bucket, key: str, last: Revision) -> None:
        written = self.there.get((bucket, key))
        if written is None or written.revision != last:
            raise Conflict(key)

    def _write(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        self.writes += 1
        self.there[bucket, key] = Written(key, value, Revision(self.writes))
        return Revision(self.writes)


class SteppedTask:
    """A coroutine that advances only in `step`."""

    def __init__(self, doing: Coroutine[Any, Any, Result]) -> None:
        self._doing = doing
        self.result: Any = None
        self.is_done = False
        self.step()

    def step(self) -> None:
        """Advance to the next call of the store."""
        try:
            self._doing.send(None)
        except StopIteration as end:
            self.result, self.is_done = end.value, True


def run_to_end(doing: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine to its end without interleaving."""
    task = SteppedTask(doing)
    while not task.is_done:
        task.step()
    result: Result = task.result
    return result
