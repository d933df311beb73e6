"""Putting servers to sleep and waking them, with a fake vLLM and with the real llama-server."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from tests.support import llama
from tests.support.supervisor_rig import PYTHON, model
from tests.support.waiting import come_true

from hotseat.catalog.sleeping import SleepLevel, step_of
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.config.specs import SERVERS
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import PutToSleep, WakeUp
from hotseat.scheduling.events import SleepFailed, UpstreamAsleep, UpstreamAwake, WakeFailed

if TYPE_CHECKING:
    from tests.support.supervisor_rig import SupervisorRig

    from hotseat.scheduling.events import UpstreamReady

PATIENCE_S = 60.0
"""For what succeeds, or is refused."""
STAND_IN = str(Path(llama.REPOSITORY / "tests/support/vllm_stand_in.py"))
DEV_MODE = (("VLLM_SERVER_DEV_MODE", "1"),)


def vllm(*options: str, env: tuple[tuple[str, str], ...] = DEV_MODE) -> ModelSpec:
    argv = (*PYTHON, STAND_IN, "--port", "${PORT}", *options)
    return ModelSpec(ModelName("qwen"), LaunchRecipe(argv, "http://127.0.0.1:${PORT}", env=env))


def known(server: str, name: str, timeout_s: float = PATIENCE_S) -> SleepLevel:
    """As `sleep: SERVER` has it."""
    form, check = SERVERS[server].levels[name], SERVERS[server].check
    suspend, resume = ([words] if isinstance(words, str) else words for words in (form.suspend, form.resume))
    steps = [tuple(step_of(text) for text in texts if text) for texts in (suspend, resume)]
    return SleepLevel(name, steps[0], steps[1], check=check, timeout_s=timeout_s)


LEVEL_1, LEVEL_2 = known("vllm", "1"), known("vllm", "2")


def put_to_sleep(ready: UpstreamReady, level: SleepLevel = LEVEL_1) -> PutToSleep:
    return PutToSleep(ready.model, ready.launch, level, "the test says so")


def wake_up(ready: UpstreamReady, level: SleepLevel = LEVEL_1) -> WakeUp:
    return WakeUp(ready.model, ready.launch, level, "the test says so")


async def ask(ready: UpstreamReady, path: str, body: object = None) -> dict[str, object]:
    """What the server itself answers."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{ready.upstream.address}{path}", data, {"Content-Type": "application/json"})
    answer: dict[str, object] = json.loads(await asyncio.to_thread(lambda: urlopen(request, timeout=20).read()))
    return answer


async def finish_reason(ready: UpstreamReady, seconds: float = 0.0) -> object:
    answer = await ask(ready, "/v1/chat/completions", {"model": "qwen", "seconds": seconds})
    choices = answer["choices"]
    assert isinstance(choices, list)
    return choices[0]["finish_reason"]


async def test_a_server_sleeps_and_wakes(rig: SupervisorRig) -> None:
    """It is the same process before and after, and it answers again."""
    ready = await rig.ready(vllm())
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready))

    assert fell == UpstreamAsleep(ready.model, ready.launch)
    assert await ask(ready, "/is_sleeping") == {"is_sleeping": True}
    assert await rig.supervisor.wake_up(wake_up(ready)) == UpstreamAwake(ready.model, ready.launch)
    assert await ask(ready, "/is_sleeping") == {"is_sleeping": False}
    assert await finish_reason(ready) == "length"
    await rig.end(ready)


async def test_level_2_reads_the_weights_again(rig: SupervisorRig) -> None:
    """Woken without them, it would answer with noise."""
    ready = await rig.ready(vllm())
    await rig.supervisor.put_to_sleep(put_to_sleep(ready, LEVEL_2))
    woken = await rig.supervisor.wake_up(wake_up(ready, LEVEL_2))

    assert isinstance(woken, UpstreamAwake)
    assert await finish_reason(ready) == "length"
    await rig.end(ready)


async def test_what_is_generated_is_not_aborted(rig: SupervisorRig) -> None:
    """The scheduler drains first; should something slip through, the server itself is asked to wait for it."""
    ready = await rig.ready(vllm())
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(finish_reason(ready, 0.3))
        await come_true(lambda: "generating" in rig.tail(20))
        await rig.supervisor.put_to_sleep(put_to_sleep(ready))

    assert answer.result() == "length"
    assert "aborted 1" not in rig.tail(20)
    await rig.end(ready)


@pytest.mark.parametrize(
    ("trouble", "timeout_s", "error"),
    [
        ("sleep refused", PATIENCE_S, "POST /sleep?level=1&mode=wait was answered with 500: "),
        ("sleep hangs", 0.5, "it had not fallen asleep after 0.5 seconds"),
    ],
)
async def test_a_server_that_does_not_sleep(rig: SupervisorRig, trouble: str, timeout_s: float, error: str) -> None:
    """The error has its answer, or says that there was none; its process is still there."""
    ready = await rig.ready(vllm("--trouble", trouble))
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, known("vllm", "1", timeout_s)))

    assert isinstance(fell, SleepFailed)
    assert fell.error.startswith(error)
    await rig.end(ready)


async def test_a_server_without_its_development_mode(rig: SupervisorRig) -> None:
    """It does not know what it is asked."""
    ready = await rig.ready(vllm(env=()))
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready))

    assert isinstance(fell, SleepFailed)
    assert "answered with 404" in fell.error
    await rig.end(ready)


@pytest.mark.parametrize(
    ("trouble", "timeout_s", "error"),
    [
        ("wake refused", PATIENCE_S, "POST /wake_up was answered with 500: "),
        ("wake hangs", 0.5, "it had not woken after 0.5 seconds"),
    ],
)
async def test_a_server_that_does_not_wake(rig: SupervisorRig, trouble: str, timeout_s: float, error: str) -> None:
    """The same, the other way round."""
    ready = await rig.ready(vllm("--trouble", trouble))
    await rig.supervisor.put_to_sleep(put_to_sleep(ready))
    woken = await rig.supervisor.wake_up(wake_up(ready, known("vllm", "1", timeout_s)))

    assert isinstance(woken, WakeFailed)
    assert woken.error.startswith(error)
    await rig.end(ready)


async def test_a_server_that_does_not_say_whether_it_sleeps(rig: SupervisorRig) -> None:
    """Then it is unknown whether its memory is free."""
    level = SleepLevel("1", (), (), check="/health", timeout_s=PATIENCE_S)
    ready = await rig.ready(vllm())
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, level))

    assert isinstance(fell, SleepFailed)
    assert fell.error.startswith("GET /health does not report the sleep state")
    await rig.end(ready)


async def test_a_server_that_keeps_its_connections(rig: SupervisorRig) -> None:
    """Its word counts when it is said, not when it hangs up; here it is that it cannot."""
    ready = await rig.ready(model("healthy"))
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, SleepLevel("1", (step_of("POST /sleep"),), ())))
    await rig.end(ready)

    assert fell == SleepFailed(ready.model, ready.launch, "POST /sleep was answered with 503: loading")


@pytest.mark.parametrize("trouble", ["dies falling asleep", "dies waking"])
async def test_a_server_that_dies_of_it(rig: SupervisorRig, trouble: str) -> None:
    """Only its exit is reported."""
    ready = await rig.ready(vllm("--trouble", trouble))
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(rig.supervisor.watch(ready))
        fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready))
        woken = await rig.supervisor.wake_up(wake_up(ready))

    assert isinstance(fell, UpstreamAsleep) is (trouble == "dies waking")
    assert not isinstance(woken, UpstreamAwake)
    assert watching.result().exit_status.startswith("exited with code 3")
    assert await rig.supervisor.put_to_sleep(put_to_sleep(ready)) is None
    assert await rig.supervisor.wake_up(wake_up(ready)) is None


async def test_a_server_that_is_stopped_while_it_falls_asleep(rig: SupervisorRig) -> None:
    """The stop wins, and no failure is reported."""
    ready = await rig.ready(vllm("--trouble", "sleep hangs"))
    async with asyncio.TaskGroup() as group:
        falling = group.create_task(rig.supervisor.put_to_sleep(put_to_sleep(ready)))
        await asyncio.sleep(0)
        await rig.end(ready)

    assert falling.result() is None


async def test_a_server_that_is_stopped_before_it_is_woken(rig: SupervisorRig, tmp_path: Path) -> None:
    """Nothing is asked of a server that is on its way out."""
    note = tmp_path / "note"
    level = SleepLevel("1", (), (step_of(f"touch {note}"),))
    ready = await rig.ready(vllm())
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(rig.end(ready))
        await asyncio.sleep(0)
        woken = group.create_task(rig.supervisor.wake_up(wake_up(ready, level)))

    assert (ending.result(), woken.result()) == ("was terminated by SIGTERM", None)
    assert not note.exists()


# Commands


async def test_commands_instead_of_requests(rig: SupervisorRig, tmp_path: Path) -> None:
    """They are run without a shell, with the server's process id and port in their words."""
    note = tmp_path / "note"
    write = f"{sys.executable} -I -S -c 'import sys; open(sys.argv[1], \"a\").write(sys.argv[2])' {note} "
    level = SleepLevel("1", (step_of(write + "'${PID} ${PORT} down;'"),), (step_of(write + "up"),))
    ready = await rig.ready(vllm())
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, level))
    woken = await rig.supervisor.wake_up(wake_up(ready, level))

    assert (type(fell), type(woken)) == (UpstreamAsleep, UpstreamAwake)
    assert note.read_text() == f"{ready.upstream.pid} {ready.upstream.address.port} down;up"
    await rig.end(ready)


@pytest.mark.parametrize(
    ("command", "timeout_s", "error"),
    [
        ("false", PATIENCE_S, "false exited with code 1"),
        ("no-such-program", PATIENCE_S, "no-such-program"),
        ("sleep 1000", 0.5, "not fallen asleep"),
    ],
)
async def test_a_command_that_fails(rig: SupervisorRig, command: str, timeout_s: float, error: str) -> None:
    """The failure is reported, and nothing of the command is left."""
    level = SleepLevel("1", (step_of(command),), (), timeout_s=timeout_s)
    ready = await rig.ready(vllm())
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, level))

    assert isinstance(fell, SleepFailed)
    assert error in fell.error
    await rig.end(ready)


async def test_a_server_that_is_suspended_by_signals(rig: SupervisorRig) -> None:
    """A stopped process does not answer until SIGCONT; that frees no memory, but shows how commands are used."""
    stop, go = (step_of(f"kill -{name} ${{PID}}") for name in ("STOP", "CONT"))
    level = SleepLevel("1", (stop,), (go,))
    ready = await rig.ready(vllm())
    await rig.supervisor.put_to_sleep(put_to_sleep(ready, level))
    stat = Path(f"/proc/{ready.upstream.pid}/stat")

    await come_true(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert isinstance(await rig.supervisor.wake_up(wake_up(ready, level)), UpstreamAwake)
    await rig.end(ready)


# The real llama-server


@pytest.mark.llama
@pytest.mark.parametrize("key", ["", " --api-key sesame"])
async def test_llama_server_sleeps_by_itself(rig: SupervisorRig, key: str) -> None:
    """Unused for a while, it drops its model; a question brings it back. If it demands a key, it is asked with it."""
    argv = tuple(shlex.split(llama.command("alpha", "${PORT}", f"--sleep-idle-seconds 3{key}")))
    ready = await rig.ready(ModelSpec(ModelName("qwen"), LaunchRecipe(argv, "http://127.0.0.1:${PORT}")))
    level = known("llama-server", "idle")
    fell = await rig.supervisor.put_to_sleep(put_to_sleep(ready, level))

    assert isinstance(fell, UpstreamAsleep)
    assert memory_kib(ready, "VmRSS") < 0.75 * memory_kib(ready, "VmHWM")  # what it had at most
    assert isinstance(await rig.supervisor.wake_up(wake_up(ready, level)), UpstreamAwake)
    await rig.said("server is exiting sleeping state")
    await rig.end(ready)


def memory_kib(ready: UpstreamReady, what: str) -> int:
    status = Path(f"/proc/{ready.upstream.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what))
