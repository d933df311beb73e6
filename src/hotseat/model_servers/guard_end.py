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
from typing import TYPE_CHECKING, Protocol

from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.monitors import MONITOR_S, to_kill
from hotseat.model_servers.orphans import leftovers
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
        self._records = records
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
        return await end_rest(leaders, self._records)


class OtherGuard:
    """A guard that another process has started: what it leaves behind falls to others."""

    def __init__(self, pid: int, started: int | None, records: str) -> None:
        self.pid, self._started, self._records = pid, started, records

    def kill(self) -> None:
        if is_running(self.pid, self._started):
            kill_each([self.pid])

    async def ended(self, leaders: Mapping[int, int | None]) -> dict[int, int]:
        await until(lambda: not is_running(self.pid, self._started))
        return await end_rest(leaders, self._records)


async def until(fact: Callable[[], bool], pause_s: float = SCAN_S) -> None:
    """For processes whose end nobody reports; a thread that waits for one could not be given up."""
    while not fact():  # noqa: ASYNC110
        await asyncio.sleep(pause_s)


def is_running(pid: int, started: int | None) -> bool:
    """Whether it is still the same process, and no zombie; without /proc, whether there is such a process."""
    return exists(pid) if started is None else start_of(pid) == started


async def end_rest(leaders: Mapping[int, int | None], records: str) -> dict[int, int]:
    """End what a guard has left behind; the wait statuses of those that are children of this process, by pid.

    They are known as at a start, and by their start times. Any other child that this process has inherited is
    somebody else's: hotseat may be process 1, or may have replaced the shell that started it.
    """
    if not processes():  # without /proc only groups are known
        for leader in leaders:
            signal_group(leader, signal.SIGKILL)
    known, statuses, idle_scans = {**leaders}, dict[int, int](), 0
    loop = asyncio.get_running_loop()
    monitors_until = loop.time() + MONITOR_S
    while idle_scans < 2:  # during exec a process shows no environment
        known |= {pid: start_of(pid) for pid in await asyncio.to_thread(leftovers, records)}
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
