"""A start ends in a server that answers or in a sentence that says why not, and then nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.hanging_disk import hanging
from tests.support.supervisor_rig import command_for, is_alive, model
from tests.support.waiting import come_true

from hotseat import threads
from hotseat.errors import LoadFailed
from hotseat.model_servers import load_progress
from hotseat.model_servers.os_processes import MARKER, children
from hotseat.model_servers.readiness import deadline_s
from hotseat.scheduling.commands import Cause, StopUpstream
from hotseat.scheduling.events import SlotsLearned, UpstreamFailed
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import SupervisorRig


TRIES = 3
"""On a busy machine one of them may be held up."""


async def test_a_server_that_answers_is_ready(rig: SupervisorRig) -> None:
    """Its address is where it answers and its pid is the program's own."""
    ready = await rig.ready(model("healthy"))

    assert b"misbehaving_servers.py" in (await command_line(ready.upstream.pid))
    assert ready.upstream.address.host == "127.0.0.1"
    assert ready.upstream.address.port > 0


async def test_a_server_is_asked_for_its_slots(rig: SupervisorRig) -> None:
    """Only if its Server header is llama.cpp: for others the request would be unexpected."""
    telling, silent = await rig.ready(model("tells_its_slots")), await rig.ready(model("healthy"))

    assert await rig.supervisor.ask_slots(telling) == SlotsLearned(telling.model, telling.launch, 3)
    assert await rig.supervisor.ask_slots(silent) is None
    assert rig.supervisor.context(telling.model) == 4096


async def test_a_start_costs_little_more_than_the_server_takes(rig: SupervisorRig) -> None:
    """A server that is ready after 300 ms is found ready a few milliseconds later."""
    found_at = []
    for _ in range(TRIES):
        await rig.ready(model("slow_to_load", "0.3"))
        found_at.append(time.monotonic())
    ready_at = [float(line.split()[-1]) for line in rig.tail() if line.startswith("ready at ")]

    assert 0 < min(found - ready for found, ready in zip(found_at, ready_at, strict=True)) < 0.1


async def test_a_failure_of_our_own_leaves_no_process(rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without an owner would have memory that nobody counts."""
    await rig.end(await rig.ready(model("healthy")))
    guard = rig.supervisor.guard.pid

    def fail(argv: object) -> int:
        raise RuntimeError("told to fail")

    monkeypatch.setattr(load_progress, "weight_of", fail)
    with pytest.raises(RuntimeError, match="told to fail"):
        await rig.ready(model("healthy"))

    assert guard
    assert children(guard) == []


async def test_a_disk_that_does_not_respond(
    rig: SupervisorRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start fails after a time, and the next one at once; the model loads when the disk is back."""
    monkeypatch.setattr(threads, "DISK_S", 0.1)
    words = ("sh", "-c", 'exec "$@"', str(tmp_path / "gone/m.gguf"), *command_for("healthy", "${PORT}"))
    with hanging(tmp_path / "gone") as waited_for:
        first = await rig.failed(model("", argv=words))
        while not waited_for:  # a look at a disk that responds took as long
            first = await rig.failed(model("", argv=words))
        monkeypatch.setattr(threads, "DISK_S", 600.0)
        second = await rig.failed(model("", argv=words))

    assert first == "qwen is not ready: the disk has not responded within 0.1 s."
    assert second == "qwen is not ready: the disk has not responded within 600 s."
    assert (await rig.ready(model("", argv=words))).model == "qwen"


async def test_a_model_is_stopped_while_its_disk_does_not_respond(rig: SupervisorRig, tmp_path: Path) -> None:
    """It is not started when the disk is back."""
    server = tmp_path / "gone/server"
    server.parent.mkdir()
    server.write_text("#!/bin/sh\necho started\n")
    server.chmod(0o755)
    start = rig.next_start(model("", argv=(str(server), "${PORT}")))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    with hanging(server.parent):
        await come_true(lambda: threads._looking)
        await rig.stop(start)
    started = await starting

    assert isinstance(started, UpstreamFailed)
    assert started.error.message == "qwen was stopped while loading"
    assert rig.tail() == []


async def test_a_program_that_does_not_exist_is_named(rig: SupervisorRig) -> None:
    """The sentence says which word of the command line to look at."""
    error = await rig.failed(model("healthy", argv=("llama-servr", "--port", "${PORT}")))

    assert error == 'qwen is not ready: no program named "llama-servr" on PATH. Install it, or correct `cmd`.'


async def test_a_file_that_does_not_exist_is_named(rig: SupervisorRig) -> None:
    error = await rig.failed(model("healthy", argv=("/opt/nowhere/llama-server", "${PORT}")))

    assert error == (
        'qwen is not ready: the file "/opt/nowhere/llama-server" does not exist. Install it, or correct `cmd`.'
    )


async def test_a_file_that_may_not_be_run_is_named(rig: SupervisorRig, tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\n")
    error = await rig.failed(model("healthy", argv=(str(program), "${PORT}")))

    assert error.startswith(f'qwen is not ready: "{program}" is not executable')


async def test_a_file_that_is_no_program_fails_with_the_kernels_reason(rig: SupervisorRig, tmp_path: Path) -> None:
    """What only exec can find out comes back too."""
    program = tmp_path / "llama-server"
    program.write_bytes(b"\x7fnot an executable at all")
    program.chmod(0o755)
    error = await rig.failed(model("healthy", argv=(str(program), "${PORT}")))

    assert error == f"qwen is not ready: {program} cannot be run: Exec format error."


async def test_a_server_that_dies_while_loading_leaves_its_last_words(rig: SupervisorRig) -> None:
    """The failure says how it ended and what it wrote, without waiting for the health check's time to pass."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    spec = model("dies_while_loading", "7", health_check_timeout_s=120.0)
    failed = await rig.supervisor.start(rig.next_start(spec))

    assert isinstance(failed, UpstreamFailed)
    assert failed.error.message == "qwen is not ready: it exited with code 7 while loading. See `hotseat logs qwen`."
    assert '. See `hotseat logs qwen`. Last output: "error: failed to load' in failed.error.for_operators().message
    assert failed.error.output[-1].startswith("error: failed")
    assert loop.time() - began < 60


FAILURES = {
    "no such program": (("llama-servr", "${PORT}"), False),
    "no such file": (("/opt/nowhere/llama-server", "${PORT}"), False),
    "not executable": (("{folder}/plain", "${PORT}"), False),
    "no program": (("{folder}/bytes", "${PORT}"), False),
    "its interpreter is missing": (("{folder}/orphan", "${PORT}"), False),
    "an unknown option": (("sh", "-c", "echo error: invalid argument: --x; exit 1", "${PORT}"), False),
    "a library is missing": (("sh", "-c", "exit 127", "${PORT}"), False),
    "its command is not executable": (("sh", "-c", "exit 126", "${PORT}"), False),
    "the wrong processor": (("sh", "-c", "kill -ILL $$", "${PORT}"), False),
    "into the background": (("sh", "-c", "exit 0", "${PORT}"), False),
    "it listens elsewhere": (("sleep", "1000", "${PORT}"), False),
    "a line about a file": (("sh", "-c", "echo failed to open x.gguf; exit 1", "${PORT}"), True),
    "a line about an image": (("sh", "-c", "echo manifest unknown; exit 125", "${PORT}"), True),
    "a line about a port": (("sh", "-c", "echo bind: address already in use; exit 1", "${PORT}"), True),
    "a line about a container": (("sh", "-c", "echo container name x is already in use; exit 125", "x"), True),
    "a call that the kernel refused": (("sh", "-c", "echo mmap: Invalid argument; exit 1", "${PORT}"), True),
    "a library is missing, says the loader": (
        ("sh", "-c", "echo error while loading shared libraries: x; exit 127", "${PORT}"),
        False,
    ),
    "a crash": (("sh", "-c", "kill -SEGV $$", "${PORT}"), True),
    "an error that nobody knows": (("sh", "-c", "exit 1", "${PORT}"), True),
    "no memory": (("sh", "-c", "echo CUDA out of memory; exit 1", "${PORT}"), True),
    "killed": (("sh", "-c", "kill -KILL $$", "${PORT}"), True),
    "the container engine starts up": (("sh", "-c", "echo Cannot connect to the Docker daemon; exit 125", "x"), True),
    "the container engine failed": (("sh", "-c", "exit 125", "${PORT}"), True),
}


@pytest.mark.parametrize(("argv", "may_pass"), FAILURES.values(), ids=FAILURES)
async def test_whether_a_later_start_may_succeed(
    rig: SupervisorRig, tmp_path: Path, argv: tuple[str, ...], may_pass: bool
) -> None:
    """Not where somebody must surely change something first. A line of the output that sounds like it is a guess."""
    for name, content, mode in (
        ("plain", "", 0o644),
        ("bytes", "\x7fELF", 0o755),
        ("orphan", "#!/no/such/sh\n", 0o755),
    ):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    words = tuple(word.replace("{folder}", str(tmp_path)) for word in argv)
    failed = await rig.supervisor.start(rig.next_start(model("healthy", argv=words, health_check_timeout_s=5.0)))

    assert isinstance(failed, UpstreamFailed)
    assert failed.error.may_pass is may_pass, failed.error.message


async def test_a_server_that_ends_without_a_word(rig: SupervisorRig) -> None:
    """The log would show nothing, so the sentence says how to see more."""
    error = await rig.failed(model("healthy", argv=("sh", "-c", "exit 3", "${PORT}")))

    assert error == (
        "qwen is not ready: it exited with code 3 while loading. "
        "It printed nothing: run its command in a terminal (`hotseat show qwen` prints it)."
    )


async def test_a_server_that_listens_elsewhere(rig: SupervisorRig) -> None:
    """More time would not help, so the sentence says what else may be wrong. `cmd` does use ${PORT} here."""
    error = await rig.failed(model("healthy", argv=("sleep", "1000", "${PORT}"), health_check_timeout_s=0.1))

    assert error.endswith(
        "/health: nothing is listening there). Correct the port in `cmd` or `proxy` if it listens elsewhere,"
        " or raise healthCheckTimeout if it needs more time."
    )


async def test_a_server_that_goes_into_the_background_fails_with_the_reason(rig: SupervisorRig) -> None:
    """What it would leave behind is ended, so the sentence says why."""
    error = await rig.failed(model("dies_while_loading", "0"))

    assert "it exited with code 0 while loading (a server must stay in the foreground)" in error


async def test_a_server_that_dies_by_a_signal_says_which(rig: SupervisorRig) -> None:
    error = await rig.failed(model("dies_by_signal", str(int(signal.SIGSEGV))))

    assert "it was terminated by SIGSEGV while loading" in error


async def test_a_server_that_dies_by_a_nameless_signal_says_its_number(rig: SupervisorRig) -> None:
    error = await rig.failed(model("dies_by_signal", "40"))

    assert "it was terminated by signal 40 while loading" in error


async def test_last_words_are_those_of_this_launch(rig: SupervisorRig) -> None:
    """What an earlier launch wrote is kept, but it is not the reason of this failure."""
    await rig.failed(model("dies_while_loading"))
    failed = await rig.supervisor.start(rig.next_start(model("binds_only", health_check_timeout_s=0.3)))

    assert isinstance(failed, UpstreamFailed)
    assert not any("failed to load" in line for line in failed.error.output)
    assert any("failed to load" in line for line in rig.tail(50))


async def test_a_server_that_is_never_ready_fails_at_its_time(rig: SupervisorRig) -> None:
    """The sentence is the contract's, in whole seconds, and says what the server answered."""
    error = await rig.failed_at_its_time(model("never_ready", health_check_timeout_s=60.0), rig.has_taken_an_answer)

    assert error.startswith("qwen is not ready: health check timed out after 60 seconds (http://127.0.0.1:")
    assert (
        "/health: the last response was 503). Raise healthCheckTimeout if it needs more time. See `hotseat logs"
        in error
    )


async def test_after_a_failure_no_process_is_left(rig: SupervisorRig) -> None:
    """The next model may have the memory at once."""
    spec = model("leaks_grandchildren", "setsid", check_endpoint="/nowhere", health_check_timeout_s=60.0)
    await rig.failed_at_its_time(spec, lambda: rig.lines_with("grandchild "))
    grandchild = int(await rig.said("grandchild "))

    assert not is_alive(grandchild)
    assert not servers()


async def test_a_launch_that_is_stopped_while_loading_says_so(rig: SupervisorRig) -> None:
    """`start` itself tells the end of what it began."""
    command = rig.next_start(model("never_ready"))
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(rig.supervisor.start(command))
        await rig.said("loading tensors")
        await rig.stop(command)

    assert failure_of(starting) == "qwen was stopped while loading"


async def test_a_launch_that_is_stopped_before_it_has_a_process_never_gets_ready(rig: SupervisorRig) -> None:
    """A stop that comes right behind the start is not lost."""
    command = rig.next_start(model("healthy"))
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(rig.supervisor.start(command))
        tasks.create_task(rig.stop(command))

    assert failure_of(starting) == "qwen was stopped while loading"


async def test_a_start_that_is_cancelled_leaves_no_process(rig: SupervisorRig) -> None:
    """A cancelled start does not leave a server behind."""
    command = rig.next_start(model("never_ready"))
    starting = asyncio.get_running_loop().create_task(rig.supervisor.start(command))
    await rig.said("loading tensors")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    await come_true(lambda: not servers())


async def test_a_start_that_raises_what_nobody_foresaw_leaves_no_process(
    rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in hotseat must not leave a process."""
    monkeypatch.setattr("hotseat.model_servers.launch.listener_of", lambda *of_whom: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        await rig.supervisor.start(rig.next_start(model("healthy")))

    assert (servers(), rig.supervisor.pids()) == ([], {})


async def test_stopping_what_nobody_knows_does_nothing(rig: SupervisorRig) -> None:
    """A stop may come late, or twice."""
    ready = await rig.ready(model("healthy"))
    await rig.end(ready)

    await rig.stop(ready)
    never_begun = rig.next_start(model("healthy")).launch
    await rig.supervisor.stop(StopUpstream(ready.model, never_begun, Cause.OPERATOR, "never begun"))


async def test_a_crash_is_reported_with_the_last_output(rig: SupervisorRig) -> None:
    """An unexpected exit is reported with the last output."""
    ready = await rig.ready(model("dies_mid_stream"))
    _, writer = await asyncio.open_connection(ready.upstream.address.host, ready.upstream.address.port)
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    exited = await rig.supervisor.watch(ready)
    writer.close()

    assert (exited.exit_status, exited.output) == ("exited with code 1", ("thread panicked",))
    assert (exited.model, exited.launch) == (ready.model, ready.launch)


async def test_two_models_run_side_by_side(rig: SupervisorRig) -> None:
    """One guard looks after all; the end of one is not the end of another."""
    first, second = await rig.ready(model("healthy")), await rig.ready(model("healthy"))
    await rig.end(first)

    assert first.upstream.address.port != second.upstream.address.port
    assert is_alive(second.upstream.pid or 0)


async def test_a_server_gets_our_environment_and_its_own(rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours without what is withheld, then the model's; devices are counted as nvidia-smi counts them."""
    monkeypatch.setenv("HOTSEAT_SECRET", "hush")
    monkeypatch.setenv("HOTSEAT_PLAIN", "known")
    rig.supervisor.environment.withheld = frozenset({"HOTSEAT_SECRET"})
    await rig.ready(model("prints_its_environment", env=(("MODEL_PORT", "${PORT}"),)))
    await rig.said("session")
    lines = rig.tail(500)

    assert "HOTSEAT_PLAIN=known" in lines
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in lines
    assert not any("hush" in line for line in lines)
    assert any(line.startswith("MODEL_PORT=") and line[-1].isdigit() for line in lines)
    assert any(line.startswith(f"{MARKER}=") for line in lines)


async def test_the_order_of_devices_may_be_chosen(rig: SupervisorRig) -> None:
    await rig.ready(model("prints_its_environment", env=(("CUDA_DEVICE_ORDER", "FASTEST_FIRST"),)))

    assert await rig.said("CUDA_DEVICE_ORDER=") == "FASTEST_FIRST"


async def test_a_server_leads_its_own_session_and_inherits_no_descriptor(rig: SupervisorRig) -> None:
    """Three standard descriptors, nothing on standard input, and no terminal to be hung up by."""
    await rig.ready(model("prints_its_environment"))
    printed = await rig.said("session ")

    assert printed == "True stdin b'' fds ['0', '1', '2', '3']"  # 3 is the directory it reads


async def test_a_secret_in_the_command_line_is_never_shown(rig: SupervisorRig) -> None:
    """Some servers print how they were started."""
    await rig.ready(model("prints_its_arguments", "--api-key", "sk-canary", "--hf-token=hf_canary", "--seed", "7"))
    printed = await rig.said("started with ")

    assert printed.endswith("--api-key *** --hf-token=*** --seed 7")


def failure_of(starting: asyncio.Task[object]) -> str:
    failed = starting.result()
    assert isinstance(failed, UpstreamFailed)
    assert isinstance(failed.error, LoadFailed)
    return failed.error.message


def servers() -> list[int]:
    """The processes that the guards of this process look after."""
    return [pid for guard in children(os.getpid()) for pid in children(guard)]


async def command_line(pid: int | None) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as words:
        return words.read()


@pytest.mark.parametrize(("gigabytes", "seconds"), [(0, 120), (6, 120), (7, 140), (400, 8000)])
def test_large_files_may_take_long(gigabytes: int, seconds: int) -> None:
    """Without a configured limit: two minutes, or what a slow disk takes."""
    assert deadline_s(gigabytes * 10**9) == seconds


async def test_a_server_has_time_where_nobody_says_how_much(rig: SupervisorRig) -> None:
    """It need not be configured."""
    ready = await rig.ready(model("healthy", health_check_timeout_s=None))

    assert ready.upstream.pid


async def test_the_output_of_a_model_that_is_removed(rig: SupervisorRig) -> None:
    """It stays while the model has a server, which may write more."""
    ready, output = await rig.ready(model("healthy")), rig.output
    rig.supervisor.forget_others([])
    assert rig.output is output
    await rig.end(ready)
    rig.supervisor.forget_others([ready.model])
    assert rig.output is output
    rig.supervisor.forget_others([])

    assert rig.output is not output
