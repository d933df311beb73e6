"""No process outlives its launch, and none outlives hotseat, however either of them ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import small_hotseat
from tests.support.processes import adopted_are_gone, all_pids, command_line, environment
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, command_for, grandchild_in, is_alive, model
from tests.support.waiting import come_true, eventually

from hotseat.model_servers.descendants import FORMAT, Record, current_pid_scope, start_of, write
from hotseat.model_servers.guard_grace import GuardGrace, check_private, connect
from hotseat.model_servers.orphans import is_abandoned, private_folder, recorded
from hotseat.model_servers.os_processes import children
from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = str(Path(small_hotseat.__file__).parents[2])
RUN = "HOTSEAT_TEST_RUN"
CONTAINED = "unshare --map-root-user --mount sleep 1000.25; true"
"""A container has a mount namespace of its own; the monitor goes on after it."""


@pytest.mark.parametrize("how", ["plain", "setsid"])
async def test_what_a_stopped_server_leaves_behind_is_ended(rig: SupervisorRig, how: str) -> None:
    """Also what ignores SIGTERM and went into a session of its own; the launch is over when it is gone."""
    ready = await rig.ready(model("leaks_grandchildren", how, unload_timeout_s=0.5))
    grandchild = int(await rig.said("grandchild "))
    await rig.end(ready)

    assert not is_alive(grandchild)


@pytest.mark.parametrize("how", ["plain", "setsid"])
async def test_what_a_killed_server_leaves_behind_is_ended(rig: SupervisorRig, how: str) -> None:
    """The kernel's out-of-memory killer takes the server only."""
    ready = await rig.ready(model("leaks_grandchildren", how))
    grandchild = int(await rig.said("grandchild "))
    os.kill(ready.upstream.pid or 0, signal.SIGKILL)
    exited = await rig.supervisor.watch(ready)

    assert exited.exit_status.startswith("was terminated by SIGKILL")
    assert not is_alive(grandchild)


async def test_the_leftovers_of_one_launch_are_not_anothers(rig: SupervisorRig) -> None:
    """What a living server has sent into the background stays when its neighbour ends."""
    neighbour = await rig.ready(model("healthy"))
    ready = await rig.ready(model("leaks_grandchildren", "setsid"))
    grandchild = int(await rig.said("grandchild "))
    await rig.end(neighbour)

    assert is_alive(grandchild)
    assert is_alive(ready.upstream.pid or 0)


def test_the_servers_of_another_version_are_left_alone() -> None:
    """A guard is known by an argument that no version changes, whatever its modules are called."""
    child = "import subprocess; subprocess.run(['sleep', '60'])"
    with subprocess.Popen([sys.executable, "-c", child, "hotseat-guard"]) as guard:
        (server,) = eventually(lambda: children(guard.pid))
        abandoned = is_abandoned(server)
        os.kill(server, signal.SIGTERM)

    assert not abandoned


async def test_a_detached_process_without_environment_ends_with_the_last_launch(rig: SupervisorRig) -> None:
    """Its owner cannot be determined; it is ended when no launch is left."""
    ready = await rig.ready(model("leaks_grandchildren", "wiped"))
    detached = int(await rig.said("grandchild "))
    await come_true(lambda: not environment(detached))
    await rig.end(ready)

    await come_true(lambda: not is_alive(detached))


async def test_a_detached_process_does_not_delay_the_end_of_a_launch(rig: SupervisorRig) -> None:
    """It may belong to another launch, so this one does not wait for it."""
    neighbour = await rig.ready(model("healthy"))
    ready = await rig.ready(model("leaks_grandchildren", "wiped"))
    detached = int(await rig.said("grandchild "))
    await come_true(lambda: not environment(detached))
    how = await rig.end(ready)
    await rig.end(neighbour)

    assert how == "was terminated by SIGTERM"
    await come_true(lambda: not is_alive(detached))


NAMED = (("--name", "qwen"), ("--name=qwen",))


@pytest.mark.parametrize("name", NAMED)
async def test_a_launch_lasts_until_its_container_is_removed(
    rig: SupervisorRig, tmp_path: Path, name: tuple[str, ...]
) -> None:
    """The monitor removes it after the client's end; before that, the next start would find the name taken."""
    neighbour = await rig.ready(model("healthy"))
    note = tmp_path / "note"
    ready = await rig.ready(model("is_monitored", f"sleep 0.3; echo removed > {note}", *name))
    await rig.end(ready)

    assert note.read_text() == "removed\n"
    assert is_alive(neighbour.upstream.pid or 0)


async def test_a_monitor_whose_container_is_not_named_is_left_to_finish(rig: SupervisorRig, tmp_path: Path) -> None:
    """It may belong to another launch, so this one does not wait for it."""
    neighbour = await rig.ready(model("healthy"))
    note = tmp_path / "note"
    ready = await rig.ready(model("is_monitored", f"sleep 0.3; echo removed > {note}"))
    await rig.end(ready)

    await come_true(lambda: note.exists() and note.read_text() == "removed\n")
    await rig.end(neighbour)


@pytest.mark.parametrize("name", [("--name", "qwen"), ()])
async def test_a_container_that_outlives_its_client_is_ended(rig: SupervisorRig, name: tuple[str, ...]) -> None:
    """It has five seconds or the unload timeout, and the monitor ends after it; without a name it is the only one's."""
    ready = await rig.ready(model("is_monitored", CONTAINED, *name, unload_timeout_s=1.0))
    monitor = int(await rig.said("monitor "))
    await rig.end(ready)

    assert not is_alive(monitor)
    assert not [pid for pid in all_pids() if command_line(pid) == "sleep 1000.25 "]


async def test_a_container_without_a_name_ends_with_the_last_launch(rig: SupervisorRig) -> None:
    """While another launch is left, it may be that one's."""
    neighbour = await rig.ready(model("healthy", unload_timeout_s=1.0))
    ready = await rig.ready(model("is_monitored", CONTAINED))
    monitor = int(await rig.said("monitor "))
    await rig.end(ready)
    is_spared = is_alive(monitor)
    await rig.end(neighbour)

    assert is_spared
    assert not is_alive(monitor)


def test_a_killed_hotseat_leaves_time_to_remove_its_container(
    start_hotseat: Callable[..., SmallHotseat], tmp_path: Path
) -> None:
    """The guard ends after the monitor, whether or not it knows whose it is."""
    named, unnamed = tmp_path / "named", tmp_path / "unnamed"
    small = start_hotseat(
        {"server": ["is_monitored", f"sleep 0.3; echo removed > {named}", "--name", "qwen"]},
        {"server": ["is_monitored", f"sleep 0.3; echo removed > {unnamed}"]},
    )
    os.kill(small.process.pid, signal.SIGKILL)

    eventually(lambda: not small.left())
    assert (named.read_text(), unnamed.read_text()) == ("removed\n", "removed\n")


@pytest.mark.parametrize("how", ["plain", "setsid", "wiped"])
async def test_a_killed_guard_takes_all_with_it(rig: SupervisorRig, how: str, tmp_path: Path) -> None:
    """Servers and grandchildren fall to hotseat, which ends them and tells of it; the next start works."""
    ready = await rig.ready(model("leaks_grandchildren", how))
    grandchild = int(await rig.said("grandchild "))
    await come_true(lambda: any(str(grandchild) in path.read_text() for path in tmp_path.glob("records/*.json")))
    os.kill(await the_guard(), signal.SIGKILL)
    exited = await rig.supervisor.watch(ready)

    assert exited.exit_status.startswith("was terminated by SIGKILL")
    assert not is_alive(grandchild)
    assert not is_alive(ready.upstream.pid or 0)
    assert is_alive((await rig.ready(model("healthy"))).upstream.pid or 0)


async def test_a_guard_that_dies_before_it_answers_fails_the_start(rig: SupervisorRig) -> None:
    """No start waits for ever for an answer that cannot come."""
    guard = await the_guard()
    os.kill(guard, signal.SIGSTOP)
    starting = asyncio.get_running_loop().create_task(rig.failed(model("healthy")))
    link = rig.supervisor.guard._link
    assert link
    await come_true(lambda: link._processes)  # it was asked
    os.kill(guard, signal.SIGKILL)

    assert "the guard process has ended" in await starting


async def test_the_guard_is_not_ended_by_what_ends_a_terminal(rig: SupervisorRig) -> None:
    """Ctrl-C and a service manager's SIGTERM go to every process; the guard outlives them to do its work."""
    ready = await rig.ready(model("healthy"))
    before = await the_guard()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(before, number)
    await rig.end(ready)
    await rig.ready(model("healthy"))

    assert await the_guard() == before


@pytest.mark.parametrize("how", ["plain", "setsid", "wiped"])
def test_nothing_outlives_a_killed_hotseat(start_hotseat: Callable[..., SmallHotseat], how: str) -> None:
    """kill -9 of the parent: server and grandchild are gone within a moment, wherever they went."""
    small = start_hotseat({"server": ["leaks_grandchildren", how]}, {"server": ["healthy"]})
    grandchild = grandchild_in(small.said)
    os.kill(small.process.pid, signal.SIGKILL)

    eventually(lambda: not small.left() and not is_alive(grandchild))


def end(*rigs: SmallHotseat) -> None:
    for each in rigs:
        os.kill(each.process.pid, signal.SIGKILL)
    eventually(lambda: not any(each.left() for each in rigs))


def test_what_outlived_hotseat_and_its_guard_is_ended_by_the_next_hotseat(
    start_hotseat: Callable[..., SmallHotseat],
) -> None:
    """Both are killed at once: the kernel ends the server, and the next start what the server had started."""
    small = start_hotseat({"server": ["leaks_grandchildren", "setsid"]}, {"server": ["healthy"]})
    grandchild = grandchild_in(small.said)
    kill_with_guard(small)
    eventually(lambda: {*small.left()} <= {grandchild})  # any other hotseat that starts now may be the next one
    successor = start_hotseat({"server": ["healthy"]})

    assert eventually(lambda: not command_line(grandchild))
    end(successor)


def kill_with_guard(small: SmallHotseat) -> None:
    """Both at once: the guard cannot even begin."""
    (guard,) = children(small.process.pid)
    os.kill(guard, signal.SIGSTOP)
    os.kill(small.process.pid, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)


def grandchild_of(small: SmallHotseat) -> int:
    """The pid of one that has wiped its environment, once the guard has written it down."""
    grandchild = grandchild_in(small.said)
    eventually(lambda: any(str(grandchild) in path.read_text() for path in small.records.glob("*.json")))
    eventually(lambda: command_line(grandchild).endswith("detached 0 ") and not environment(grandchild))
    return grandchild


def test_a_detached_process_without_environment_is_ended_by_the_next_hotseat(
    start_hotseat: Callable[..., SmallHotseat],
) -> None:
    """Nothing about it tells whose it is, but the guard had seen it among its descendants."""
    small = start_hotseat({"server": ["leaks_grandchildren", "wiped"]}, {"server": ["healthy"]})
    detached = grandchild_of(small)
    kill_with_guard(small)
    eventually(lambda: not small.left())
    assert not environment(detached)
    assert is_alive(detached)
    successor = start_hotseat({"server": ["healthy"]})

    eventually(lambda: not command_line(detached))
    end(successor)


def test_a_pid_that_became_somebody_elses_is_left_alone(start_hotseat: Callable[..., SmallHotseat]) -> None:
    """A recorded number is believed only with the time at which its process began."""
    small = start_hotseat({"server": ["leaks_grandchildren", "wiped"]}, {"server": ["healthy"]})
    detached = grandchild_of(small)
    kill_with_guard(small)
    (record,) = small.records.glob("*.json")
    kept = json.loads(record.read_text())
    kept["descendants"] = {pid: start - 1 for pid, start in kept["descendants"].items()}
    record.write_text(json.dumps(kept))
    successor = start_hotseat({"server": ["healthy"]})

    assert command_line(detached)
    assert record.exists() is False
    os.kill(detached, signal.SIGKILL)
    end(successor)


@pytest.mark.parametrize("text", ["", "[" * 200_000, "{}", '{"descendants": 7}', '{"descendants": {"a": []}}'])
def test_a_broken_record_keeps_nobody_from_starting(
    start_hotseat: Callable[..., SmallHotseat], tmp_path: Path, text: str
) -> None:
    """It is removed."""
    broken = tmp_path / "records" / "7.json"
    broken.parent.mkdir()
    broken.write_text(text)
    small = start_hotseat({"server": ["healthy"]})

    assert not broken.exists()
    end(small)


@pytest.mark.parametrize(("pid_scope", "stays"), [({"boot": "another"}, False), ({"pid_namespace": "another"}, True)])
def test_a_record_of_another_machine_is_not_believed(tmp_path: Path, pid_scope: dict[str, Any], stays: bool) -> None:
    """Pids mean nothing after a restart of the machine, or in another container; that one may still need its own."""
    ours = current_pid_scope()
    assert ours
    record = Record(*ours, guard=1, guard_start=-1, descendants={os.getpid(): start_of(os.getpid()) or 0})
    path = tmp_path / "7.json"
    write(str(path), record._replace(**pid_scope))

    assert recorded(str(tmp_path)) == set()
    assert path.exists() is stays


def test_a_record_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """Its guard may still live, and only that version knows what it says."""
    ours = current_pid_scope()
    assert ours
    record = Record(*ours, guard=1, guard_start=-1, descendants={os.getpid(): start_of(os.getpid()) or 0})._asdict()
    for name, form in (("newer", {"format": FORMAT + 1, "cgroup": "x"}), ("ours", {"format": FORMAT})):
        (tmp_path / f"{name}.json").write_text(json.dumps({**record, **form}))

    assert recorded(str(tmp_path)) == {os.getpid()}
    assert [path.name for path in tmp_path.iterdir()] == ["newer.json"]


def test_a_record_that_does_not_state_its_format(tmp_path: Path) -> None:
    """It has the first one: its guard may belong to the process that this one replaces."""
    ours = current_pid_scope()
    assert ours
    record = Record(*ours, guard=1, guard_start=-1, descendants={os.getpid(): start_of(os.getpid()) or 0})._asdict()
    (tmp_path / "7.json").write_text(json.dumps(record))

    assert recorded(str(tmp_path)) == {os.getpid()}


async def test_the_record_ends_with_the_last_server(tmp_path: Path) -> None:
    """And none is needed where nothing runs."""
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=tmp_path / "records") as supervisor:
        rig = SupervisorRig(supervisor)
        ready = await rig.ready(model("healthy"))
        await come_true(lambda: [*tmp_path.glob("records/*.json")])
        await rig.end(ready)
        await come_true(lambda: not [*tmp_path.glob("records/*.json")])

    assert stat.S_IMODE((tmp_path / "records").stat().st_mode) == 0o700


async def test_where_no_record_can_be_kept_everything_else_works(tmp_path: Path) -> None:
    """A full disk or a folder that is none."""
    (tmp_path / "file").touch()
    async with open_supervisor(
        os.environ, interpreter=GUARD_INTERPRETER, records=tmp_path / "file" / "x"
    ) as supervisor:
        ready = await SupervisorRig(supervisor).ready(model("healthy"))

    assert not is_alive(ready.upstream.pid or 0)


def test_what_has_a_guard_is_left_alone(start_hotseat: Callable[..., SmallHotseat]) -> None:
    """A second hotseat on the same machine ends nothing of the first, whatever its record says."""
    first = start_hotseat({"server": ["leaks_grandchildren", "wiped"]}, {"server": ["healthy"]})
    grandchild = grandchild_of(first)
    second = start_hotseat({"server": ["healthy"]})

    assert command_line(grandchild)
    end(first, second)


def test_a_server_that_ignores_sigterm_does_not_outlive_a_killed_hotseat(
    start_hotseat: Callable[..., SmallHotseat],
) -> None:
    """It gets one second."""
    small = start_hotseat({"server": ["ignores_sigterm"]})
    os.kill(small.process.pid, signal.SIGKILL)

    eventually(lambda: not small.left())


def test_a_stop_command_is_run_for_a_killed_hotseat(start_hotseat: Callable[..., SmallHotseat], tmp_path: Path) -> None:
    """Killing the client of a container leaves the container: only its stop command ends it."""
    note = tmp_path / "note"
    small = start_hotseat({"server": ["tells_of_sigterm"], "stop": command_for("stop_politely", "${PID}", str(note))})
    os.kill(small.process.pid, signal.SIGKILL)

    assert eventually(lambda: note.exists() and note.read_text().endswith("\n") and note.read_text())
    eventually(lambda: not small.left())


@pytest.mark.parametrize("stop", [command_for("fail_to_stop", "${PID}"), ("{}", "${PID}"), ("dockr", "stop")])
def test_a_stop_command_that_fails_does_not_save_the_server(
    start_hotseat: Callable[..., SmallHotseat], stop: tuple[str, ...], tmp_path: Path
) -> None:
    """It gets SIGTERM instead, and then SIGKILL."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fno program")
    broken.chmod(0o755)
    stop = tuple(word.replace("{}", str(broken)) for word in stop)
    small = start_hotseat({"server": ["ignores_sigterm"], "stop": stop})
    os.kill(small.process.pid, signal.SIGKILL)

    eventually(lambda: not small.left())


def test_a_stop_command_that_hangs_ends_with_the_unload_timeout(start_hotseat: Callable[..., SmallHotseat]) -> None:
    stop = command_for("hang_while_stopping", "${PID}")
    small = start_hotseat({"server": ["ignores_sigterm"], "stop": stop, "unload_timeout_s": 0.5})
    os.kill(small.process.pid, signal.SIGKILL)

    eventually(lambda: not small.left())


class SmallHotseat:
    """A process that opened a supervisor, with what its servers had said when they were ready."""

    def __init__(self, servers: list[dict[str, Any]], run: str) -> None:
        self._mark = f"{RUN}={run}".encode()
        self.records = Path(run) / "records"
        argv = [sys.executable, "-m", "tests.support.small_hotseat", json.dumps(servers), f"{run}/records"]
        env = {**os.environ, RUN: run}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, cwd=REPOSITORY)
        assert self.process.stdout
        self.said: list[str] = json.loads(self.process.stdout.readline())

    def left(self) -> list[int]:
        """What is still there: itself, its guard, its servers and whatever they started."""
        self.process.poll()
        return [pid for pid in all_pids() if self._mark in environment(pid)]


@pytest.fixture
def start_hotseat(tmp_path: Path) -> Iterator[Callable[..., SmallHotseat]]:
    started = []

    def build(*servers: dict[str, Any]) -> SmallHotseat:
        started.append(SmallHotseat(list(servers), str(tmp_path)))
        return started[-1]

    yield build

    for each in started:
        each.process.kill()
        each.process.communicate()
        assert not each.left()
    eventually(adopted_are_gone)


async def the_guard() -> int:
    """Its pid, once the kernel shows its command line."""
    return (await come_true(lambda: [pid for pid in children(os.getpid()) if "hotseat-guard" in command_line(pid)]))[0]


@pytest.mark.parametrize("make", [private_folder, check_private], ids=lambda make: make.__name__)
def test_a_folder_in_a_state_directory_that_is_missing(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Nobody else may enter the state directory either, whatever the umask."""
    state = tmp_path / "home" / "state"
    former = os.umask(0o022)
    try:
        make(state / "guard" / "8080")
    finally:
        os.umask(former)

    assert [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "guard", state / "guard/8080")] == [0o700] * 3


def test_a_state_directory_that_is_deeper_than_the_name_of_a_socket_may_be(tmp_path: Path) -> None:
    """The next hotseat reaches the guard of a killed one wherever the state directory is."""
    path = tmp_path / ("long" * 25) / "guard" / "127.0.0.1:8080"
    listening = GuardGrace(60.0, path).listen()
    assert listening is not None
    connection = connect(path)
    listening.listener.close()

    assert connection is not None
    connection.close()
    assert path.stat().st_ino == listening.inode
