"""Starts hotseat without importing it again: importing takes two seconds of a processor, a fork some milliseconds.

For tests of what a running hotseat does. How it is started from the command line is tested with `Hotseat`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hotseat import Hotseat

from hotseat.model_servers.os_processes import PR_SET_CHILD_SUBREAPER, prctl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STARTER = Path(__file__).with_name("program_starter.py")


class ForkedHotseat(Hotseat):
    def processes(self, name: str = "") -> list[int]:
        """A fork cannot be found by its environment and its command line, which are those of the starter."""
        is_asked_for = not name and self.process.poll() is None
        return [*([self.process.pid] if is_asked_for else []), *super().processes(name)]

    def _start(self, argv: Sequence[str], output: int) -> ForkedProcess:
        return ForkedProcess(starter(), argv, self._environment, output)


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a process that is not a child of this one."""

    def __init__(self, starter: Starter, argv: Sequence[str], environ: Mapping[str, str], output: int) -> None:
        self._starter = starter
        self.pid: int = starter.ask({"argv": list(argv), "environ": dict(environ)}, output)
        self.returncode: int | None = None
        self._end = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._starter.ask({"pid": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        readable, _, _ = select.select([self._end], [], [], timeout)
        if not readable:
            raise subprocess.TimeoutExpired("hotseat serve", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._end)


class Starter:
    """The running program_starter.py. It ends when this process does, which closes its socket.

    It is not a child of this process, since some tests wait for all of their children.
    """

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            # -P: in its own folder there are modules with names of packages.
            argv = [sys.executable, "-P", str(STARTER), str(theirs.fileno())]
            prctl(PR_SET_CHILD_SUBREAPER, 0)  # an earlier test may have made this process adopt orphans
            subprocess.run(argv, pass_fds=[theirs.fileno()], check=True)

    def ask(self, order: Mapping[str, Any], *files: int) -> Any:
        """Any, because the answer depends on the order."""
        with self._lock:
            socket.send_fds(self._control, [json.dumps(order).encode()], files)
            answer = self._control.recv(1000)
        assert answer, "the starter of programs has ended; its output says why"
        return json.loads(answer)


@cache
def starter() -> Starter:
    """One in each process that runs tests."""
    return Starter()
