"""One guard process and the socket to it. guard_process.py is the other end.

Both directions are lines of JSON; a spawn request carries the file descriptor of the output pipe.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.model_servers.monitors import MONITOR_S, to_kill
from hotseat.model_servers.os_processes import GUARD, MARKER, children, kill_each, processes, session_of, signal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from hotseat.model_servers.guard_process import main; main()"
HOME = str(Path(__file__).parents[2])
POLL_S = 0.005

GUARDS: set[int] = set()
"""Guards of this process that have not been waited for."""


@dataclass(frozen=True, slots=True)
class Order:
    """A program to start. `stop` (a program, then its argv) is what the guard runs if hotseat has died."""

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stop: tuple[str, ...] | None = None
    unload_timeout_s: float = 10.0


class GuardedProcess:
    """A process tree under the guard. `gone` holds the leader's wait status once no process of the tree is left."""

    def __init__(self, link: Link, n: int, marker: str) -> None:
        loop = asyncio.get_running_loop()
        self._link, self.n, self.marker = link, n, marker
        self.spawned: asyncio.Future[int] = loop.create_future()
        self.gone: asyncio.Future[int] = loop.create_future()

    @property
    def pid(self) -> int:
        return self.spawned.result()

    def signal(self, number: int) -> None:
        """Signal the leader's process group; does nothing if the leader has ended."""
        self._link.send({"do": "signal", "n": self.n, "signal": number})


class Link:
    def __init__(self, interpreter: Sequence[str], on_loss: Callable[[], None], records: str = "") -> None:
        """`records` is the folder for the guard's record of its processes; empty: none."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [*interpreter, "-c", PROGRAM, HOME, records, GUARD],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        GUARDS.add(self.process.pid)
        self._socket.setblocking(False)
        self._on_loss = on_loss
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._processes: dict[int, GuardedProcess] = {}
        self._unread = b""
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()

    def order(self, order: Order, output: int) -> GuardedProcess:
        """Request a process; its `spawned` holds the result. Closes `output` once it is sent."""
        n = next(self._numbers)
        process = self._processes[n] = GuardedProcess(self, n, f"{self._name}-{n}")
        request = {
            "do": "spawn",
            "n": n,
            "program": order.program,
            "argv": order.argv,
            "env": {**order.env, MARKER: process.marker},
            "stop": order.stop,
            "unload_timeout_s": order.unload_timeout_s,
        }
        self.send(request, output)
        return process

    def send(self, request: dict[str, Any], *fds: int) -> None:
        self._unsent.append((json.dumps(request).encode() + b"\n", fds))
        self._flush()

    def hang_up(self) -> None:
        """Close the socket: the guard ends everything and exits."""
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fds in self._unsent:
            close_each(fds)
        self._unsent.clear()

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._send_some(*self._unsent.popleft())
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._flush)
        except OSError:
            return  # the guard is gone, and the reader will notice
        else:
            self._loop.remove_writer(self._socket)

    def _send_some(self, data: bytes, fds: tuple[int, ...]) -> None:
        try:
            sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
        except OSError:
            self._unsent.appendleft((data, fds))
            raise
        close_each(fds)
        if sent < len(data):
            self._unsent.appendleft((data[sent:], ()))

    # Reports of the guard

    def _receive(self) -> None:
        try:
            received = self._socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except ConnectionError:
            received = b""
        if not received:
            self.hang_up()
            return self._on_loss()
        *facts, self._unread = (self._unread + received).split(b"\n")
        for fact in facts:
            self._learn(**json.loads(fact))
        return None

    def _learn(self, n: int, fact: str, value: int) -> None:
        process = self._processes[n]
        match fact:
            case "spawned":
                settle(process.spawned, value)
            case "failed":
                del self._processes[n]
                settle(process.spawned, OSError(value, os.strerror(value)))
            case "gone":
                del self._processes[n]
                settle(process.gone, value)

    # After its end

    async def wait_for_end(self) -> None:
        """Return when the guard and its former children have ended; then every process has its status."""
        await asyncio.to_thread(self.process.wait)  # from then on its children are ours
        GUARDS.discard(self.process.pid)
        statuses = await self._end_inherited()
        for process in self._processes.values():
            if process.spawned.done():
                settle(process.gone, statuses.get(process.pid, signal.SIGKILL))
            else:
                settle(process.spawned, ConnectionResetError("the guard process was killed"))
        self._processes.clear()

    async def _end_inherited(self) -> dict[int, int]:
        """The wait statuses of inherited children, by pid."""
        if not processes():  # no /proc, no inherited children: only groups are known
            for process in self._processes.values():
                if process.spawned.done():
                    signal_group(process.pid, signal.SIGKILL)
        statuses: dict[int, int] = {}
        monitors_until = self._loop.time() + MONITOR_S
        while inherited := [pid for pid in children(os.getpid()) if is_inherited(pid)]:
            kill_each(to_kill(inherited, is_late=self._loop.time() > monitors_until))
            statuses |= collect_dead(inherited)
            await asyncio.sleep(POLL_S)
        return statuses


def is_inherited(child: int) -> bool:
    """Children of hotseat share its session, except for guards; what a guard started never does."""
    return child not in GUARDS and session_of(child) != os.getsid(0)


def settle(future: asyncio.Future[int], outcome: int | OSError) -> None:
    if future.done():
        return
    if isinstance(outcome, OSError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def collect_dead(pids: Iterable[int]) -> dict[int, int]:
    ended = [os.waitpid(pid, os.WNOHANG) for pid in pids]
    return {pid: status for pid, status in ended if pid}


def close_each(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
