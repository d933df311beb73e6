"""A stop asks politely, then not politely, and is over when the last process is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import is_alive, model, played_by

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import Stage

    from hotseat.identifiers import Seconds

pytestmark = pytest.mark.usefixtures("counted_guard")

TRIES = 3
"""On a busy machine one of them may be held up."""
SOON_S = 10.0
"""After a time limit, on a busy machine."""


async def test_a_server_is_asked_with_sigterm(stage: Stage) -> None:
    """It may clean up, and its exit code is reported."""
    ready = await stage.ready(model("tells_of_sigterm"))
    how = await stage.end(ready)

    assert how == "exited with code 0"
    assert stage.output.tail(1) == ["asked to end"]


async def test_a_stop_takes_milliseconds(stage: Stage) -> None:
    """The exit is reported when it happens, not at the next poll."""
    assert min([await time_to_stop(stage) for _ in range(TRIES)]) < 0.1


async def time_to_stop(stage: Stage) -> Seconds:
    ready = await stage.ready(model("dutiful"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await stage.end(ready)
    return loop.time() - began


async def test_a_server_that_ignores_sigterm_is_killed_at_its_time(stage: Stage) -> None:
    """Neither sooner nor much later than its unload timeout."""
    ready = await stage.ready(model("ignores_sigterm", unload_timeout_s=0.4))
    loop = asyncio.get_running_loop()
    began = loop.time()
    how = await stage.end(ready)

    assert how == "was terminated by SIGKILL"
    assert 0.4 <= loop.time() - began < SOON_S


async def test_two_stops_are_one(stage: Stage) -> None:
    """The second waits for the same end and does not start the time again."""
    ready = await stage.ready(model("ignores_sigterm", unload_timeout_s=0.4))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(stage.stop(ready), stage.stop(ready))

    assert loop.time() - began < SOON_S
    assert not is_alive(ready.upstream.pid or 0)


async def test_a_stop_that_is_cancelled_still_ends_the_server(stage: Stage) -> None:
    """A cancelled stop kills the server at once."""
    ready = await stage.ready(model("ignores_sigterm", unload_timeout_s=60))
    stopping = asyncio.get_running_loop().create_task(stage.stop(ready))
    await asyncio.sleep(0)
    stopping.cancel()
    exited = await stage.supervisor.watch(ready)

    assert exited.how == "was terminated by SIGKILL"


async def test_a_stop_command_is_run_instead_of_sigterm(stage: Stage, tmp_path: Path) -> None:
    """It gets the pid of the server, which then ends by what the command does."""
    note = tmp_path / "note"
    ready = await stage.ready(model("tells_of_sigterm", stop=played_by("stop_politely", "${PID}", str(note))))
    how = await stage.end(ready)

    assert note.read_text() == f"stopping {ready.upstream.pid}\n"
    assert how == "exited with code 0"


async def test_a_stop_command_that_fails_is_followed_by_sigterm(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """What it wrote is in the model's output, and the log says that it failed."""
    ready = await stage.ready(model("tells_of_sigterm", stop=played_by("fail_to_stop", "${PID}")))
    with caplog.at_level(logging.WARNING):
        how = await stage.end(ready)

    assert how == "exited with code 0"
    assert stage.output.tail(2) == [f"cannot stop {ready.upstream.pid}", "asked to end"]
    assert "cmdStop failed, sending SIGTERM instead" in caplog.text


async def test_a_stop_command_that_does_not_exist_is_followed_by_sigterm(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    ready = await stage.ready(model("tells_of_sigterm", stop=("dockr", "stop", "qwen")))
    with caplog.at_level(logging.WARNING):
        how = await stage.end(ready)

    assert how == "exited with code 0"
    assert 'no program named "dockr" on PATH' in caplog.text


async def test_a_stop_command_that_hangs_ends_with_its_server(stage: Stage) -> None:
    """Both are killed when the unload timeout is over."""
    stop = played_by("hang_while_stopping", "${PID}")
    ready = await stage.ready(model("dutiful", stop=stop, unload_timeout_s=0.5))
    how = await stage.end(ready)
    await stage.said("stopping ")

    assert how == "was terminated by SIGKILL"


async def test_a_stop_command_is_not_run_for_a_server_that_is_gone(stage: Stage, tmp_path: Path) -> None:
    """Its pid may be a stranger's by now."""
    note = tmp_path / "note"
    stop = played_by("stop_politely", "${PID}", str(note))
    await stage.failed(model("dies_while_loading", stop=stop))

    assert not note.exists()


async def test_a_stop_in_the_middle_of_a_start_runs_the_stop_command_too(stage: Stage, tmp_path: Path) -> None:
    """A container that is still loading is stopped like one that runs."""
    note = tmp_path / "note"
    spec = model("never_ready", stop=played_by("stop_politely", "${PID}", str(note)), health_check_timeout_s=2.0)
    error = await stage.failed(spec)

    assert "timed out" in error
    assert note.read_text().startswith("stopping ")
