"""A guard as a process: how hotseat learns that it has ended, and ends what it left behind.

The kernel ends the leaders with their guard, but not what these have started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.model_servers.descendants import is_running, start_of
from hotseat.model_servers.monitors import MONITOR_S, to_kill
from hotseat.model_servers.orphans import leftovers
from hotseat.model_servers.os_processes import GUARD, children, kill_each, processes, session_of, signal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hotseat.model_servers.guarded_process import GuardedProcess

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from hotseat.model_servers.guard_process import main; main()"
HOME = str(Path(__file__).parents[2])
POLL_S = 0.005

GUARDS: dict[int, subprocess.Popen[bytes]] = {}
"""Guards that are children of this process and have not been waited for, also those that another hotseat has now."""


class GuardProcess:
    """What it leaves behind becomes ours if this process has started it; else it falls to others."""

    def __init__(self, pid: int, started: int | None, records: str) -> None:
        self.pid, self._started, self._records = pid, started, records

    def kill(self) -> None:
        child = GUARDS.get(self.pid)
        if child.poll() is None if child else start_of(self.pid) == self._started:
            kill_each([self.pid])

    async def ended(self, servers: Sequence[GuardedProcess]) -> dict[int, int]:
        """Return when it, its servers and what else it left have ended: wait statuses by pid, where they are known."""
        await until(self._has_ended, POLL_S)
        GUARDS.pop(self.pid, None)
        return await end_rest(servers, self._records)

    def _has_ended(self) -> bool:
        child = GUARDS.get(self.pid)
        return child.poll() is not None if child else not is_running(self.pid, self._started)


def start_guard(interpreter: Sequence[str], records: str) -> tuple[GuardProcess, socket.socket]:
    """A new guard, and our end of the connection to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [*interpreter, "-c", PROGRAM, HOME, records, GUARD]
        child = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
    GUARDS[child.pid] = child
    return GuardProcess(child.pid, start_of(child.pid), records), ours


async def until(fact: Callable[[], bool], pause_s: float) -> None:
    """For processes whose end nobody reports; a thread that waits for one could not be given up."""
    while not fact():  # noqa: ASYNC110
        await asyncio.sleep(pause_s)


async def end_rest(servers: Sequence[GuardedProcess], records: str) -> dict[int, int]:
    """End what a guard has left behind; the wait statuses of those that are children of this process, by pid.

    They are known as at a start, by their start times, and by the containers that their commands name: the guard may
    not have recorded these yet. Any other child that this process has inherited is somebody else's: hotseat may be
    process 1, or may have replaced the shell that started it.
    """
    if not processes():  # without /proc only groups are known
        for server in servers:
            signal_group(server.pid, signal.SIGKILL)
    known, statuses, idle_scans = {server.pid: server.started for server in servers}, dict[int, int](), 0
    commands = [server.argv for server in servers]
    loop = asyncio.get_running_loop()
    monitors_until = loop.time() + MONITOR_S
    while idle_scans < 2:  # during exec a process shows no environment
        known |= {pid: start_of(pid) for pid in await asyncio.to_thread(leftovers, records, commands)}
        left = [pid for pid, started in known.items() if started is not None and start_of(pid) == started]
        kill_each(to_kill(left, is_late=loop.time() > monitors_until))
        statuses |= collect_dead(filter(is_inherited, children(os.getpid())))
        idle_scans = 0 if left else idle_scans + 1
        await asyncio.sleep(POLL_S)
    return statuses


def is_inherited(child: int) -> bool:
    """Children of hotseat share its session, except for guards."""
    return child not in GUARDS and session_of(child) != os.getsid(0)


def collect_dead(pids: Iterable[int]) -> dict[int, int]:
    ended = [os.waitpid(pid, os.WNOHANG) for pid in pids]
    return {pid: status for pid, status in ended if pid}
