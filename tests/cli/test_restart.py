"""`hotseat restart` where it may not restart; tests/journeys/test_restart.py has what happens where it may."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import come_true

from hotseat.cli import restart
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command_line import CommandLine, Typed

NOT_HERE = "no process of yours on this machine listens at"


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """Those that this process has received: it also serves here."""
    received: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: received.append(number))
    yield received
    signal.signal(signal.SIGUSR2, before)


def test_nobody_listens(typed: Typed) -> None:
    """The message says how to start hotseat."""
    said = typed("restart", "--url", "http://127.0.0.1:9")

    assert said.code == 4
    assert "no server responds at http://127.0.0.1:9" in said.err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1"])
async def test_the_signal_goes_to_the_process_that_answers_only(
    command_line: CommandLine, signals: list[int], host: str
) -> None:
    """Another process that holds the address gets no signal, which could end it; the message says what to use."""
    url = command_line.url.replace("127.0.0.1", host)  # the process that answers says that it is 3920
    said = await asyncio.to_thread(command_line.typed, "restart", "--url", url)

    assert said.code == 1
    assert f"{NOT_HERE} {url}; as another user or from another machine, use an API key" in said.err
    assert signals == []


async def test_an_attempt_that_failed(command_line: CommandLine, signals: list[int]) -> None:
    """The process that answers gets the signal; the reason of its failure is printed, and the exit code is 1."""
    restarts = command_line.rig.restarts
    restarts.serving_pid = os.getpid()
    typing = Tasks().start(command_line.type("restart"), "hotseat restart")
    await come_true(lambda: signals)
    restarts.attempts, restarts.problem = 1, "config.yaml:3:1: error: unknown key"
    said = await typing

    assert said.code == 1
    assert f"the restart failed, and process {os.getpid()} continues: config.yaml:3:1" in said.err


async def test_a_restart_that_never_ends(
    command_line: CommandLine, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does nothing after its signal is waited for as long as a restart may take, and then named."""
    monkeypatch.setattr(restart, "RESTART_S", 2.0)
    command_line.rig.restarts.serving_pid = os.getpid()
    said = await command_line.type("restart")

    assert said.code == 1
    assert f"process {os.getpid()} has neither restarted nor said why not for 2 s; see its log" in said.err
    assert len(signals) == 1


async def test_a_key_without_the_right(command_line: CommandLine, signals: list[int]) -> None:
    """With a key, a request is sent instead of a signal, and its refusal is printed."""
    said = await command_line.type("restart", "--api-key", "sk-any")

    assert said.code == 1
    assert "configure a key with the role admin" in said.err
    assert signals == []
