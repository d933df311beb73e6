"""However hotseat ends, no model server outlives it, and no stream is cut that could be finished."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_a_killed_hotseat_leaves_nobody_behind(rig: Hotseat) -> None:
    """kill -9 of hotseat ends its model servers too."""
    rig.load("alpha")
    running = rig.upstreams()
    rig.process.kill()
    rig.process.wait()

    assert len(running) == 1
    assert eventually(lambda: not rig.processes())


def test_sigterm_lets_a_stream_finish(serve: Callable[..., Hotseat]) -> None:
    """On SIGTERM the stream under way is finished, the model stopped, and the exit code is 0."""
    rig = serve({"alpha": llama("alpha")}, shutdown={"drain": 60})
    stream = rig.stream("alpha", max_tokens=500).until_it_speaks()
    rig.process.terminate()
    stream.read()

    assert (len(stream.words), stream.done) == (500, True)
    assert rig.terminate() == 0
    assert rig.processes() == []


def guard_of(rig: Hotseat) -> int:
    (guard,) = rig.processes("hotseat.model_servers.guard_process")
    return guard


def test_a_killed_guard_takes_its_servers_along_and_is_replaced(rig: Hotseat) -> None:
    """kill -9 of the guard ends the model servers; the next request starts what it needs."""
    before = rig.load("alpha")
    guard = guard_of(rig)
    os.kill(guard, signal.SIGKILL)
    eventually(lambda: before not in rig.upstreams())
    answer = rig.chat("alpha")

    assert answer.status == 200
    assert guard_of(rig) != guard
    assert len(rig.upstreams()) == 1


def test_when_hotseat_and_its_guard_are_killed_at_once_the_server_does_not_stay(rig: Hotseat) -> None:
    """Nobody is left to end it, so the kernel does."""
    rig.load("alpha")
    guard = guard_of(rig)
    os.kill(guard, signal.SIGSTOP)  # it cannot even begin
    rig.process.kill()
    os.kill(guard, signal.SIGKILL)
    rig.process.wait()

    assert eventually(lambda: not rig.processes())


def test_the_next_start_takes_over_cleanly(rig: Hotseat, tmp_path: Path) -> None:
    """After kill -9 the same port and the same models are there again at once."""
    rig.load("alpha")
    rig.process.kill()
    rig.process.wait()
    folder = tmp_path / "next"
    folder.mkdir()
    with ForkedHotseat(rig.config, folder, port=rig.port) as successor:
        answer = successor.chat("alpha")

    assert answer.status == 200
    assert rig.processes() == []
