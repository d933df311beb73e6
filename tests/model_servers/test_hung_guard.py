"""A guard that does not answer costs seconds: every message to it has a time limit, after which it is killed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.guard_owner import open_guard
from tests.support.supervisor_rig import GUARD_INTERPRETER, is_alive
from tests.support.waiting import come_true

from hotseat.model_servers import guard_link, os_processes
from hotseat.model_servers.guard_client import Guard
from hotseat.model_servers.guard_link import CannotTake
from hotseat.model_servers.guarded_process import Order, PipeEnds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from hotseat.model_servers.guarded_process import GuardedProcess

SLEEP = shutil.which("sleep") or ""
FOR_EVER = Order(SLEEP, ("sleep", "1000"), {})
SOON_S = 20.0
"""After the limit, on a busy machine."""
IN_SOURCE = re.compile(r'"do": "(\w+)"')


def stop(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> int:
    """Only now is its time short: before, it may be late on a busy machine."""
    assert guard.pid
    os.kill(guard.pid, signal.SIGSTOP)
    monkeypatch.setattr(guard_link, "ANSWER_S", 0.3)
    return guard.pid


@pytest.fixture
async def guard(nobody_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guard]:
    monkeypatch.setattr(guard_link, "TICK_S", 0.05)
    guard = await open_guard()
    yield guard
    await guard.aclose()


async def spawn(guard: Guard, _: GuardedProcess) -> None:
    with pytest.raises(ConnectionResetError, match=r"the guard process has not answered for 0\.3 s"):
        await guard.spawn(FOR_EVER, nowhere())


async def take(guard: Guard, _: GuardedProcess) -> None:
    with pytest.raises(CannotTake):
        await Guard(GUARD_INTERPRETER).take(guard.offer())


async def withdraw(guard: Guard, _: GuardedProcess) -> None:
    assert await guard.withdraw()


async def end_all(guard: Guard, _: GuardedProcess) -> None:
    await guard.aclose()


async def offer(guard: Guard, _: GuardedProcess) -> None:
    guard.offer().close()


async def keep(guard: Guard, _: GuardedProcess) -> None:
    guard.keep_for(None)


async def signal_it(_: Guard, process: GuardedProcess) -> None:
    process.signal(signal.SIGTERM)


async def stopping(_: Guard, process: GuardedProcess) -> None:
    process.begin_stop()


async def end(_: Guard, process: GuardedProcess) -> None:
    process.ask_guard_to_end()


async def describe(_: Guard, process: GuardedProcess) -> None:
    process.describe({})


async def limit(_: Guard, process: GuardedProcess) -> None:
    process.limit_stop(1.0)


MESSAGES: dict[str, Callable[[Guard, GuardedProcess], Awaitable[None]]] = {
    "spawn": spawn,
    "take": take,
    "withdraw": withdraw,
    "end_all": end_all,
    "offer": offer,
    "keep": keep,
    "signal": signal_it,
    "stopping": stopping,
    "end": end,
    "describe": describe,
    "limit": limit,
}


def test_every_kind_of_message_is_known() -> None:
    """Whoever adds one to the sources must add it here."""
    files = Path(guard_link.__file__).parent.glob("guard*.py")

    assert {kind for file in files for kind in IN_SOURCE.findall(file.read_text())} == {*MESSAGES}


@pytest.mark.parametrize("kind", MESSAGES)
async def test_a_message_to_a_guard_that_does_not_answer(
    guard: Guard, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits learns it in time; the guard is killed, and its servers end as if it had died."""
    process = await guard.spawn(FOR_EVER, nowhere())
    hung = stop(guard, monkeypatch)
    async with asyncio.timeout(0.3 + SOON_S):
        await MESSAGES[kind](guard, process)
        await process.gone

    assert not is_alive(process.pid)
    assert not is_alive(hung)


async def test_a_take_from_a_guard_that_nobody_else_watches(
    nobody_is_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner was killed, and it hangs: the next hotseat starts without its servers."""
    monkeypatch.setattr(guard_link, "TICK_S", 0.05)
    monkeypatch.setattr(guard_link, "ANSWER_S", 0.3)
    theirs, guards = socket.socketpair()
    with guards, pytest.raises(CannotTake, match=r"the guard process has not answered for 0\.3 s"):
        await Guard(GUARD_INTERPRETER).take(theirs)


async def test_a_guard_that_answers_late_is_kept(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the limit hotseat only says that it waits, and with the answer that is over."""
    hung = stop(guard, monkeypatch)
    monkeypatch.setattr(guard_link, "ANSWER_S", 1000.0)
    spawning = asyncio.get_running_loop().create_task(guard.spawn(FOR_EVER, nowhere()))
    await come_true(lambda: guard.silent_s > 0.2)
    os.kill(hung, signal.SIGCONT)
    process = await spawning

    assert is_alive(process.pid)
    assert guard.pid == hung
    await come_true(lambda: guard.silent_s == 0.0)


async def test_time_in_which_hotseat_was_stopped_itself_does_not_count(guard: Guard) -> None:
    """Both were suspended, as with the machine: the guard has had no time to answer."""
    os.kill(guard.pid or 0, signal.SIGSTOP)
    guard.keep_for(None)
    loop = asyncio.get_running_loop()
    now = loop.time
    vars(loop)["time"] = lambda: now() + 3600.0
    await come_true(lambda: guard.silent_s > 0.0)
    os.kill(guard.pid or 0, signal.SIGCONT)

    await come_true(lambda: guard.silent_s == 0.0)
    assert guard.pid


async def test_a_guard_that_does_not_end_is_killed(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read that it shall, and then stopped."""
    monkeypatch.setattr(guard_link, "END_S", 0.2)
    trap = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    process = await guard.spawn(Order(shutil.which("sh") or "", trap, {**os.environ}), nowhere())
    hung = guard.pid or 0
    ending = asyncio.get_running_loop().create_task(guard.aclose())
    await asyncio.sleep(0)
    link = process._send.__self__  # type: ignore[attr-defined]
    await come_true(lambda: link._messages.fileno() < 0)
    os.kill(hung, signal.SIGSTOP)
    async with asyncio.timeout(SOON_S):
        await ending

    assert not is_alive(process.pid)
    assert not is_alive(hung)


def test_a_program_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file system does not answer: the start fails, and the guard goes on."""
    monkeypatch.setattr(os_processes, "BEGIN_S", 0.1)
    monkeypatch.setattr(os_processes, "become", lambda *_: signal.pause())
    with pytest.raises(TimeoutError):
        os_processes.run_program(SLEEP, ("sleep", "1"), {}, os.open(os.devnull, os.O_WRONLY))

    assert os.waitpid(-1, 0)[1] == signal.SIGKILL


def nowhere() -> PipeEnds:
    return PipeEnds(os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_RDONLY))
