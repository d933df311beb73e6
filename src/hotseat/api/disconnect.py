"""Waits that end when the client disconnects, which then gives up its ticket or its subscription."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from fastapi.responses import StreamingResponse

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from starlette.types import Receive, Scope, Send

T = TypeVar("T")

HUNG_UP = 499
"""nginx's status for a disconnected client; nobody reads it."""


class ClientGone(Exception):
    """The client disconnected before its response."""


class Ended(Exception):
    """Another process has taken over before the end of a feed."""


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """Await `work`; if the client disconnects first, cancel it and raise ClientGone."""
    return await _unless(partial(_hang_up, receive), ClientGone, work)


async def unless(event: asyncio.Event, work: Awaitable[T]) -> T:
    """Await `work`; if the event is set first, cancel it and raise Ended."""
    return await _unless(event.wait, Ended, work)


async def _unless(happens: Callable[[], Awaitable[object]], problem: type[Exception], work: Awaitable[T]) -> T:
    tasks = Tasks()
    until = asyncio.timeout(None)
    try:
        async with until:
            tasks.start(_expire_after(happens, until), "watch for the end")
            return await work
    except TimeoutError:
        if until.expired():
            raise problem from None
        raise
    finally:
        await tasks.aclose()


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _expire_after(happens: Callable[[], Awaitable[object]], until: asyncio.Timeout) -> None:
    await happens()
    until.reschedule(asyncio.get_running_loop().time())


class LiveStream(StreamingResponse):
    """An endless feed that notices a disconnect at once, not at its next event, and always closes its source."""

    def __init__(self, feed: AsyncGenerator[str, None], media_type: str = "text/event-stream") -> None:
        # A buffering reverse proxy would hold back a quiet feed for minutes.
        super().__init__(feed, headers={"X-Accel-Buffering": "no"}, media_type=media_type)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        feeds_end: asyncio.Event = scope["app"].state.deps.feeds_end
        async with aclosing(self._feed):
            try:
                await unless_gone(receive, unless(feeds_end, self.stream_response(send)))
            except ClientGone:
                return
            except Ended:  # complete for its client, which connects again
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def lasting(source: AsyncGenerator[T, None], seconds: float) -> AsyncGenerator[T, None]:
    """The items of the source until the time is up."""
    until = asyncio.get_running_loop().time() + seconds
    async with aclosing(source):
        while True:
            try:
                async with asyncio.timeout_at(until):
                    item = await anext(source)
            except (TimeoutError, StopAsyncIteration):
                return
            yield item


class _Over(Enum):
    OVER = "this source has ended"


@asynccontextmanager
async def listening(
    sources: Sequence[AsyncGenerator[T, None]], pause_s: float
) -> AsyncGenerator[AsyncGenerator[T | None, None], None]:
    """The items of all sources from now on as they arrive, with a None whenever all were silent for `pause_s`."""
    # Size 1: a slow reader then blocks the source, which can report skipped items.
    items: asyncio.Queue[T | _Over] = asyncio.Queue(maxsize=1)
    tasks = Tasks()
    for source in sources:
        tasks.start(_listen(source, items), "listen to a feed")
    try:
        await asyncio.sleep(0)  # all sources listen now, so history read from here on leaves no gap
        coming = _until_all_are_over(items, len(sources), pause_s)
        yield coming
    finally:
        await tasks.aclose()


async def _until_all_are_over(
    items: asyncio.Queue[T | _Over], still_speaking: int, pause_s: float
) -> AsyncGenerator[T | None, None]:
    while still_speaking:
        item = await _within(pause_s, items)
        if item is _Over.OVER:
            still_speaking -= 1
        else:
            yield item


async def _listen(source: AsyncGenerator[T, None], items: asyncio.Queue[T | _Over]) -> None:
    async with aclosing(source):
        async for item in source:
            await items.put(item)
    await items.put(_Over.OVER)


async def _within(pause_s: float, items: asyncio.Queue[T | _Over]) -> T | _Over | None:
    try:
        async with asyncio.timeout(pause_s):
            return await items.get()
    except TimeoutError:
        return None
