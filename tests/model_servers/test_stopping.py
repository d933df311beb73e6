"""A stop asks politely, then not politely, and is over when the last process is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import command_for, is_alive, model
from tests.support.virtual_time import skip

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import SupervisorRig

    from hotseat.identifiers import Seconds

pytestmark = pytest.mark.usefixtures("counted_guard")

TRIES = 3
"""On a busy machine one of them may be held up."""
SOON_S = 60.0
"""After a time limit, on a busy machine."""


async def test_a_server_is_asked_with_sigterm(rig: SupervisorRig) -> None:
    """It may clean up, and its exit code is reported."""
    ready = await rig.ready(model("tells_of_sigterm"))
    how = await rig.end(ready)

    assert how == "exited with code 0"
    assert rig.tail(1) == ["asked to end"]


async def test_a_stop_takes_milliseconds(rig: SupervisorRig) -> None:
    """The exit is reported when it happens, not at the next poll."""
    assert min([await time_to_stop(rig) for _ in range(TRIES)]) < 0.1


async def time_to_stop(rig: SupervisorRig) -> Seconds:
    ready = await rig.ready(model("healthy"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await rig.end(ready)
    return loop.time() - began


async def test_a_server_that_ignores_sigterm_is_killed_at_its_time(rig: SupervisorRig) -> None:
    """Neither sooner nor much later than its unload timeout."""
    ready = await rig.ready(model("ignores_sigterm", unload_timeout_s=0.4))
    loop = asyncio.get_running_loop()
    began = loop.time()
    how = await rig.end(ready)

    assert how == "was terminated by SIGKILL"
    assert 0.4 <= loop.time() - began < SOON_S


@pytest.mark.parametrize(("at_start", "now"), [(0.1, 0.5), (600.0, 0.5)])
async def test_the_unload_timeout_is_that_of_the_stop(rig: SupervisorRig, at_start: Seconds, now: Seconds) -> None:
    """The configuration may have been reloaded since the server was started."""
    ready = await rig.ready(model("ignores_sigterm", unload_timeout_s=at_start))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await rig.end(ready, now)

    assert now <= loop.time() - began < SOON_S


async def test_two_stops_are_one(rig: SupervisorRig) -> None:
    """The second waits for the same end and does not start the time again."""
    ready = await rig.ready(model("ignores_sigterm", unload_timeout_s=0.4))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(rig.stop(ready), rig.stop(ready))

    assert loop.time() - began < SOON_S
    assert not is_alive(ready.upstream.pid or 0)


async def test_a_stop_that_is_cancelled_still_ends_the_server(rig: SupervisorRig) -> None:
    """A cancelled stop kills the server at once."""
    ready = await rig.ready(model("ignores_sigterm", unload_timeout_s=60))
    stopping = asyncio.get_running_loop().create_task(rig.stop(ready))
    await asyncio.sleep(0)
    stopping.cancel()
    exited = await rig.supervisor.watch(ready)

    assert exited.exit_status == "was terminated by SIGKILL"


async def test_a_stop_command_is_run_instead_of_sigterm(rig: SupervisorRig, tmp_path: Path) -> None:
    """It gets the pid of the server, which then ends by what the command does."""
    note = tmp_path / "note"
    ready = await rig.ready(model("tells_of_sigterm", stop=command_for("stop_politely", "${PID}", str(note))))
    how = await rig.end(ready)

    assert note.read_text() == f"stopping {ready.upstream.pid}\n"
    assert how == "exited with code 0"


async def test_a_stop_command_that_fails_is_followed_by_sigterm(
    rig: SupervisorRig, caplog: pytest.LogCaptureFixture
) -> None:
    """What it wrote is in the model's output, and the log says that it failed."""
    ready = await rig.ready(model("tells_of_sigterm", stop=command_for("fail_to_stop", "${PID}")))
    with caplog.at_level(logging.WARNING):
        how = await rig.end(ready)

    assert how == "exited with code 0"
    assert rig.tail(2) == [f"cannot stop {ready.upstream.pid}", "asked to end"]
    assert "cmdStop failed, sending SIGTERM instead" in caplog.text


async def test_a_stop_command_that_does_not_exist_is_followed_by_sigterm(
    rig: SupervisorRig, caplog: pytest.LogCaptureFixture
) -> None:
    ready = await rig.ready(model("tells_of_sigterm", stop=("dockr", "stop", "qwen")))
    with caplog.at_level(logging.WARNING):
        how = await rig.end(ready)

    assert how == "exited with code 0"
    assert 'no program named "dockr" on PATH' in caplog.text


async def test_a_stop_command_that_hangs_ends_with_its_server(rig: SupervisorRig) -> None:
    """Both are killed when the unload timeout is over."""
    stop = command_for("hang_while_stopping", "${PID}")
    ready = await rig.ready(model("healthy", stop=stop, unload_timeout_s=60.0))
    ending = asyncio.get_running_loop().create_task(rig.end(ready))
    await rig.said("stopping ")
    skip(60.0)

    assert await ending == "was terminated by SIGKILL"


async def test_a_stop_command_is_not_run_for_a_server_that_is_gone(rig: SupervisorRig, tmp_path: Path) -> None:
    """Its pid may belong to another process by now."""
    note = tmp_path / "note"
    stop = command_for("stop_politely", "${PID}", str(note))
    await rig.failed(model("dies_while_loading", stop=stop))

    assert not note.exists()


async def test_a_stop_in_the_middle_of_a_start_runs_the_stop_command_too(rig: SupervisorRig, tmp_path: Path) -> None:
    """A container that is still loading is stopped like one that runs."""
    note = tmp_path / "note"
    stop = command_for("stop_politely", "${PID}", str(note))
    spec = model("never_ready", stop=stop, health_check_timeout_s=60.0, unload_timeout_s=60.0)
    error = await rig.failed_at_its_time(spec, lambda: rig.lines_with("loading tensors"))

    assert "timed out" in error
    assert note.read_text().startswith("stopping ")
