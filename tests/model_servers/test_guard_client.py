"""The guard, asked directly: what it does with large, cancelled and late commands."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from tests.support.guard_owner import open_guard
from tests.support.supervisor_rig import is_alive
from tests.support.waiting import come_true, come_true_async

from hotseat.model_servers import guard_end
from hotseat.model_servers.guarded_process import Order, PipeEnds
from hotseat.model_servers.os_processes import children

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.model_servers.guard_client import Guard

pytestmark = pytest.mark.usefixtures("counted_guard")

TRUE, SLEEP = shutil.which("true") or "", shutil.which("sleep") or ""
FOR_EVER = Order(SLEEP, ("sleep", "1000"), {})


@pytest.fixture
async def guard(nobody_is_left: None) -> AsyncIterator[Guard]:
    guard = await open_guard()
    yield guard
    await guard.aclose()


async def test_a_process_is_reported_when_it_begins_and_when_it_ends(guard: Guard) -> None:
    process = await guard.spawn(Order(TRUE, ("true",), {}), nowhere())

    assert await process.gone == 0


async def test_an_order_larger_than_the_socket_gets_through(guard: Guard) -> None:
    """A megabyte of environment, and two more orders close behind."""
    large = Order(TRUE, ("true",), {f"V{number}": "x" * 100_000 for number in range(10)})
    guarded = await asyncio.gather(*(guard.spawn(order, nowhere()) for order in (large, FOR_EVER, large)))
    guarded[1].signal(signal.SIGTERM)

    assert [await process.gone for process in guarded] == [0, signal.SIGTERM, 0]


async def test_an_order_that_nobody_waits_for_any_more_is_undone(guard: Guard) -> None:
    """The request was already sent, so the process is ended."""
    await (await guard.spawn(Order(TRUE, ("true",), {}), nowhere())).gone
    spawning = asyncio.get_running_loop().create_task(guard.spawn(FOR_EVER, nowhere()))
    await asyncio.sleep(0)
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    following = await guard.spawn(Order(TRUE, ("true",), {}), nowhere())
    await following.gone

    await come_true(lambda: not children(guard.pid or 0))


async def test_an_order_that_is_given_up_does_not_disturb_the_wait_for_the_guards_end(guard: Guard) -> None:
    """Its answer never comes and is not missed."""
    assert guard.pid
    os.kill(guard.pid, signal.SIGSTOP)
    spawning = asyncio.get_running_loop().create_task(guard.spawn(FOR_EVER, nowhere()))
    await asyncio.sleep(0)
    spawning.cancel()
    await asyncio.gather(spawning, return_exceptions=True)
    os.kill(guard.pid, signal.SIGKILL)
    await come_true(lambda: guard.pid is None)
    await guard.aclose()

    assert spawning.cancelled()


async def test_an_order_to_a_guard_that_has_just_died_fails(guard: Guard) -> None:
    """It does not wait, and the order after it finds a new guard."""
    assert guard.pid
    os.kill(guard.pid, signal.SIGKILL)
    os.waitid(os.P_PID, guard.pid, os.WEXITED | os.WNOWAIT)  # dead, and we have not read it from the socket yet
    with pytest.raises(ConnectionResetError):
        await guard.spawn(FOR_EVER, nowhere())
    process = await guard.spawn(Order(TRUE, ("true",), {}), nowhere())

    assert await process.gone == 0


async def test_signals_to_what_has_ended_reach_nobody(guard: Guard) -> None:
    """Its pid may belong to another process: the guard, its parent, knows."""
    process = await guard.spawn(Order(TRUE, ("true",), {}), nowhere())
    await process.gone
    process.signal(signal.SIGKILL)
    other = await guard.spawn(Order(TRUE, ("true",), {}), nowhere())

    assert await other.gone == 0


async def test_closing_the_guard_ends_what_it_still_has(nobody_is_left: None) -> None:
    guard = await open_guard()
    process = await guard.spawn(FOR_EVER, nowhere())
    await guard.aclose()

    assert process.gone.done()
    assert not is_alive(process.pid)


async def test_closing_a_guard_that_was_lost_waits_for_its_end(nobody_is_left: None) -> None:
    guard = await open_guard()
    process = await guard.spawn(FOR_EVER, nowhere())
    os.kill(guard.pid or 0, signal.SIGKILL)
    await come_true(lambda: guard.pid is None)
    await guard.aclose()

    assert not is_alive(process.pid)


async def test_what_a_lost_guard_has_left_cannot_be_found(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for its servers learns that these have ended, and the next order finds a new guard."""
    monkeypatch.setattr(guard_end, "leftovers", Mock(side_effect=ZeroDivisionError))
    process = await guard.spawn(FOR_EVER, nowhere())
    os.kill(guard.pid or 0, signal.SIGKILL)

    async with asyncio.timeout(20):
        assert await process.gone == signal.SIGKILL
    assert await (await guard.spawn(Order(TRUE, ("true",), {}), nowhere())).gone == 0
    monkeypatch.undo()
    os.waitpid(process.pid, 0)


async def test_beginnings_and_ends_are_reported_in_milliseconds(guard: Guard) -> None:
    """Our share of a swap must not be felt."""

    async def is_quick() -> bool:
        began = time.perf_counter()
        await (await guard.spawn(Order(TRUE, ("true",), {}), nowhere())).gone
        return time.perf_counter() - began < 0.05

    await come_true_async(is_quick)  # on a busy machine many of them are held up


def nowhere() -> PipeEnds:
    return PipeEnds(os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_RDONLY))
