"""hotseat signals a process by its own record only: a foreign process of the same shape survives at every place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from tests.support.llama import REPOSITORY
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, model
from tests.support.waiting import come_true, eventually

from hotseat.cli.problems import Problem
from hotseat.cli.restart import send_signal
from hotseat.handover import stand_in
from hotseat.handover.successor import ChildOfSystemd
from hotseat.model_servers.descendants import Record, current_pid_scope, start_of, write
from hotseat.model_servers.guard_end import GuardProcess
from hotseat.model_servers.monitors import to_kill
from hotseat.model_servers.orphans import end_leftovers
from hotseat.model_servers.os_processes import become_subreaper, children, session_of
from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path


@contextmanager
def foreign_process() -> Iterator[int]:
    """A daemon in a session of its own, and a child of this process, which it has not started: it was adopted."""
    become_subreaper()
    before = {*children(os.getpid())}
    subprocess.run(["sh", "-c", "setsid sleep 1000.75 & true"], check=True)
    (pid,) = eventually(lambda: {*children(os.getpid())} - before)
    eventually(lambda: session_of(pid) == pid)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def a_guard_that_ends(_: int, folder: Path) -> None:
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=folder) as supervisor:
        await SupervisorRig(supervisor).ready(model("healthy"))


async def a_guard_that_is_killed(_: int, folder: Path) -> None:
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=folder) as supervisor:
        ready = await SupervisorRig(supervisor).ready(model("healthy"))
        os.kill(supervisor.guard.pid or 0, signal.SIGKILL)
        await supervisor.watch(ready)


async def a_stop_in_the_guard(_: int, folder: Path) -> None:
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=folder) as supervisor:
        rig = SupervisorRig(supervisor)
        await rig.end(await rig.ready(model("healthy")))


async def a_start(pid: int, folder: Path) -> None:
    scope = current_pid_scope()
    assert scope
    write(str(folder / "7.json"), Record(*scope, guard=1, guard_start=-1, descendants={pid: (start_of(pid) or 0) - 1}))
    end_leftovers(str(folder))


async def another_guard(pid: int, _: Path) -> None:
    """That had the same pid."""
    GuardProcess(pid, (start_of(pid) or 0) - 1, "").kill()


async def a_monitor(pid: int, _: Path) -> None:
    """What is not below it is not killed with it."""
    assert to_kill([os.getpid()], is_late=False) == [os.getpid()]
    assert pid in children(os.getpid())


async def a_stand_in(pid: int, _: Path) -> None:
    assert pid not in stand_in.successors(os.getpid())
    stand_in.send_to_oldest(stand_in.successors(os.getpid()), signal.SIGTERM)


async def a_child_of_systemd(pid: int, _: Path) -> None:
    """That had the same pid."""
    successor = Mock(spec=ChildOfSystemd, pid=pid, _start=(start_of(pid) or 0) - 1)
    ChildOfSystemd.send_signal(successor, signal.SIGTERM)


async def a_restart_command(pid: int, _: Path) -> None:
    server = Mock(url="http://127.0.0.1:1")
    server.peer.return_value = ("127.0.0.1", 1)
    with pytest.raises(Problem):
        send_signal(server, pid)


PLACES: dict[str, tuple[Callable[[int, Path], Awaitable[None]], ...]] = {
    "model_servers/guard_end.py": (a_guard_that_ends, a_guard_that_is_killed, another_guard),
    "model_servers/guard_trees.py": (a_stop_in_the_guard,),
    "model_servers/orphans.py": (a_start,),
    "model_servers/monitors.py": (a_monitor,),
    "handover/stand_in.py": (a_stand_in,),
    "handover/successor.py": (a_child_of_systemd,),
    "cli/restart.py": (a_restart_command,),
}
"""What each file with a signal does, beside a foreign process."""
OWN = {
    "model_servers/os_processes.py": "the functions that the others use, and the fork that did not become a program",
}
SIGNAL = re.compile(r"\bos\.kill(?:pg)?\((?!pid, 0\))|\bkill_each\(|\bsignal_group\(|def to_kill\(")


def test_every_place_that_sends_a_signal_is_known() -> None:
    """Whoever adds one must say by which record it knows the process, and add a foreign process."""
    source = REPOSITORY / "src/hotseat"
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if SIGNAL.search(path.read_text())}

    assert found == {*PLACES, *OWN}


@pytest.mark.parametrize("place", [place for places in PLACES.values() for place in places], ids=lambda it: it.__name__)
async def test_a_foreign_process_survives(
    place: Callable[[int, Path], Awaitable[None]], tmp_path: Path, nobody_is_left: None
) -> None:
    """Whatever hotseat ends there."""
    with foreign_process() as pid:
        await place(pid, tmp_path)

        assert start_of(pid)


async def test_a_foreign_process_that_has_ended_is_collected(tmp_path: Path, nobody_is_left: None) -> None:
    """Nobody else can: this process is its parent."""
    before = {*children(os.getpid())}
    with foreign_process() as pid:
        async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=tmp_path) as supervisor:
            await SupervisorRig(supervisor).ready(model("healthy"))
            another = subprocess.run(["sh", "-c", "setsid sleep 0 & echo $!"], check=True, capture_output=True)
            await come_true(lambda: start_of(int(another.stdout)) is None)

        assert {*children(os.getpid())} - before == {pid}
