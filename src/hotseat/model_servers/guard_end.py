"""A guard as a process: how hotseat learns that it has ended, and ends what it left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.monitors import MONITOR_S, to_kill
from hotseat.model_servers.orphans import end_leftovers
from hotseat.model_servers.os_processes import GUARD, children, exists, kill_each, processes, session_of, signal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from hotseat.model_servers.guard_process import main; main()"
HOME = str(Path(__file__).parents[2])
POLL_S, SCAN_S = 0.005, 0.02

GUARDS: dict[int, subprocess.Popen[bytes]] = {}
"""Guards that are children of this process and have not been waited for, also those that another hotseat has now."""


class GuardProcess(Protocol):
    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    async def ended(self, leaders: Mapping[int, int | None]) -> dict[int, int]:
        """Return when it and its former children have ended: their wait statuses by pid, where they are known.

        `leaders` are the start times of its servers by pid.
        """


class ChildGuard:
    """A guard that this process has started: what it leaves behind becomes ours, since hotseat is a subreaper."""

    def __init__(self, interpreter: Sequence[str], records: str) -> None:
        self.connection, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*interpreter, "-c", PROGRAM, HOME, records, GUARD],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        GUARDS[self.pid] = self._process

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    async def ended(self, leaders: Mapping[int, int | None]) -> dict[int, int]:
        await until(lambda: self._process.poll() is not None, POLL_S)  # from then on its children are ours
        GUARDS.pop(self.pid, None)
        kill_groups_unseen(leaders)
        return await end_inherited()


class OtherGuard:
    """A guard that another process has started. What it leaves behind falls to others, and is found as at a start."""

    def __init__(self, pid: int, started: int | None, records: str) -> None:
        self.pid, self._started, self._records = pid, started, records

    def kill(self) -> None:
        if is_running(self.pid, self._started):
            kill_each([self.pid])

    async def ended(self, leaders: Mapping[int, int | None]) -> dict[int, int]:
        await until(lambda: not is_running(self.pid, self._started))
        kill_groups_unseen(leaders)
        # The kernel ends the leaders with their parent, but not what these have started.
        await until(lambda: not (end_leftovers(self._records) or any(is_running(*each) for each in leaders.items())))
        return {}


async def until(fact: Callable[[], bool], pause_s: float = SCAN_S) -> None:
    """For processes whose end nobody reports; a thread that waits for one could not be given up."""
    while not fact():  # noqa: ASYNC110
        await asyncio.sleep(pause_s)


def is_running(pid: int, started: int | None) -> bool:
    """Whether it is still the same process, and no zombie; without /proc, whether there is such a process."""
    return exists(pid) if started is None else start_of(pid) == started


def kill_groups_unseen(leaders: Iterable[int]) -> None:
    """Without /proc no children are known: only groups are."""
    if not processes():
        for leader in leaders:
            signal_group(leader, signal.SIGKILL)


async def end_inherited() -> dict[int, int]:
    """The wait statuses of inherited children, by pid."""
    statuses: dict[int, int] = {}
    loop = asyncio.get_running_loop()
    monitors_until = loop.time() + MONITOR_S
    while inherited := [pid for pid in children(os.getpid()) if is_inherited(pid)]:
        kill_each(to_kill(inherited, is_late=loop.time() > monitors_until))
        statuses |= collect_dead(inherited)
        await asyncio.sleep(POLL_S)
    return statuses


def is_inherited(child: int) -> bool:
    """Children of hotseat share its session, except for guards; what a guard started never does."""
    return child not in GUARDS and session_of(child) != os.getsid(0)


def collect_dead(pids: Iterable[int]) -> dict[int, int]:
    ended = [os.waitpid(pid, os.WNOHANG) for pid in pids]
    return {pid: status for pid, status in ended if pid}
