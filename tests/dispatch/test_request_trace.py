"""The times of each request, collected only while they are watched."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.fake_launcher import FakeLauncher
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.dispatch import request_trace as traffic_module
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.dispatch.request_trace import Missed, RequestTiming, Traffic
from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.scheduling.events import PromptProcessed, RequestArrived, RequestLeft
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

QWEN, ANN = ModelName("qwen"), ClientId("ann")


class FakeWaiter:
    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None: ...


@asynccontextmanager
async def a_dispatcher(launcher: FakeLauncher | None = None, **policy: int) -> AsyncIterator[Dispatcher]:
    rig = one_at_a_time(model("qwen", concurrency_limit=1), **policy)
    dispatcher = Dispatcher(Scheduler(rig), launcher or FakeLauncher(), Journal())
    try:
        yield dispatcher
    finally:
        await dispatcher.shut_down(within=0)


@asynccontextmanager
async def watching(traffic: Traffic) -> AsyncIterator[list[RequestTiming | Missed]]:
    """What is reported within the block, up to the moment it is read."""
    items: list[RequestTiming | Missed] = []
    collect = items.append

    async def watch() -> None:
        async for item in traffic.follow():
            collect(item)

    tasks = Tasks()
    tasks.start(watch(), "watch")
    await asyncio.sleep(0)
    try:
        yield items
    finally:
        await tasks.aclose()


async def a_request(dispatcher: Dispatcher, seconds: float) -> None:
    ticket = dispatcher.ask(QWEN, ANN, FakeWaiter())
    await advance(seconds)
    dispatcher.leave(ticket)
    await asyncio.sleep(0)


@in_virtual_time
async def test_a_request_is_reported_when_it_has_ended() -> None:
    """With the times of its arrival, its grant and its end, whether it waited or not."""
    launcher = FakeLauncher(slow=("qwen",))
    async with a_dispatcher(launcher) as dispatcher, watching(dispatcher.traffic) as items:
        begin = asyncio.get_running_loop().time()
        first = dispatcher.ask(QWEN, ANN, FakeWaiter())
        await advance(10)
        launcher.become_ready("qwen")
        await advance(3)
        dispatcher.leave(first)
        await a_request(dispatcher, 2)

        assert items == [
            RequestTiming(QWEN, ANN, begin, begin + 10, begin + 13),
            RequestTiming(QWEN, ANN, begin + 13, begin + 13, begin + 15),
        ]


@in_virtual_time
async def test_a_request_that_was_never_served_is_reported_without_a_grant() -> None:
    """Requests that are refused or leave the queue have no grant time."""
    async with (
        a_dispatcher(FakeLauncher(slow=("qwen",)), max_queue=1) as dispatcher,
        watching(dispatcher.traffic) as items,
    ):
        waits = dispatcher.ask(QWEN, ANN, FakeWaiter())
        dispatcher.ask(QWEN, ANN, FakeWaiter())
        dispatcher.leave(waits)
        await asyncio.sleep(0)

        assert [item.granted for item in items if isinstance(item, RequestTiming)] == [None, None]


@in_virtual_time
async def test_nothing_is_noted_while_nobody_watches() -> None:
    """Neither before nor after a watch; a request that was in flight at its start is not reported."""
    async with a_dispatcher() as dispatcher:
        under_way = dispatcher.ask(QWEN, ANN, FakeWaiter())
        async with watching(dispatcher.traffic) as items:
            dispatcher.leave(under_way)
            dispatcher.ask(QWEN, ANN, FakeWaiter())
            await asyncio.sleep(0)
        await a_request(dispatcher, 1)

        assert items == []
        assert not dispatcher.traffic._in_progress


@in_virtual_time
async def test_reads_are_not_traffic() -> None:
    """A request that takes no slot neither waits nor delays others."""
    async with a_dispatcher() as dispatcher, watching(dispatcher.traffic) as items:
        dispatcher.leave(dispatcher.ask(QWEN, ANN, FakeWaiter(), takes_slot=False))
        await asyncio.sleep(0)

        assert items == []


@in_virtual_time
async def test_a_slow_watcher_learns_how_much_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses what it did not read, and does not slow down others."""
    monkeypatch.setattr(traffic_module, "BEHIND", 2)
    traffic = Traffic()
    async with watching(traffic) as items:
        for number in range(5):
            traffic.note(RequestArrived(TicketId(number), QWEN, ANN), [], 0.0)
            traffic.note(RequestLeft(TicketId(number)), [], 1.0)
        await asyncio.sleep(0)

        assert sum(item.count if isinstance(item, Missed) else 1 for item in items) == 5
        assert any(isinstance(item, Missed) for item in items)


@in_virtual_time
async def test_what_a_server_says_about_a_prompt_is_reported_with_its_request() -> None:
    """Also if no conversations are kept. A request that arrived before the watch began is not reported."""
    async with a_dispatcher() as dispatcher:
        before = dispatcher.ask(QWEN, ANN, FakeWaiter())
        dispatcher.prompt_processed(PromptProcessed(before, 100, 0, 0.5))
        async with watching(dispatcher.traffic) as items:
            dispatcher.prompt_processed(PromptProcessed(before, 100, 0, 0.5))
            dispatcher.leave(before)
            ticket = dispatcher.ask(QWEN, ANN, FakeWaiter())
            reported = PromptProcessed(ticket, 900, 100, 0.5, 20)
            dispatcher.prompt_processed(reported)
            dispatcher.leave(ticket)
            await asyncio.sleep(0)

            assert [item.prompt for item in items if isinstance(item, RequestTiming)] == [reported]
