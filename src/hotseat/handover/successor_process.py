"""How the new process is started: as a child of this one or, if systemd follows it, as a child of systemd.

systemd waits for the end of its own children only: it would kill another main process at once instead of stopping it,
and would not restart it after a crash.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from hotseat.handover.stand_in import shell_code
from hotseat.model_servers.descendants import is_running, start_of
from hotseat.model_servers.os_processes import without_subreaper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AGAIN_S = 0.01
SYSTEMD = "NOTIFY_SOCKET"
LAUNCHER = """
import os, signal, sys
answer, command = int(sys.argv[1]), sys.argv[2:]
os.set_inheritable(answer, False)
usual = [signal.SIGPIPE, signal.SIGXFSZ]
try:
    result = os.posix_spawnp(command[0], command, os.environ, setpgroup=0, setsigdef=usual)
except OSError as problem:
    result = problem
os.write(answer, str(result).encode())
"""
"""Starts the command and ends, so that systemd becomes its parent. Not a module: an upgrade might have replaced it."""


class SuccessorProcess(Protocol):
    @property
    def pid(self) -> int: ...

    def send_signal(self, number: int) -> None:
        """Do nothing if it has ended."""

    def exit_code(self) -> int:
        """Wait for its end, as a blocking call."""


class ChildProcess:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str], passed: int) -> None:
        # A process group: Ctrl-C reaches this process, which passes it on once.
        self._process = subprocess.Popen(command, env=environ, pass_fds=[passed], process_group=0)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        return shell_code(self._process.wait())


class ChildOfSystemd:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str], passed: int) -> None:
        self.pid = launched(command, environ, passed)
        self._start = start_of(self.pid)

    def send_signal(self, number: int) -> None:
        if self._start is not None and start_of(self.pid) == self._start:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def exit_code(self) -> int:
        """Always 0: systemd alone learns its exit code."""
        while self._start is not None and is_running(self.pid, self._start):
            time.sleep(AGAIN_S)
        return 0


def launched(command: Sequence[str], environ: Mapping[str, str], passed: int) -> int:
    """The pid of the command; OSError if it cannot be started."""
    reader, writer = os.pipe()
    with open(reader) as answer:
        try:
            launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(writer), *command]
            with without_subreaper():
                subprocess.run(launcher, check=False, env=environ, pass_fds=[passed, writer])
        finally:
            os.close(writer)
        result = answer.read()
    if not result.isdigit():
        raise OSError(result or "its launcher failed")
    return int(result)


def start_process(command: Sequence[str], environ: Mapping[str, str], passed: int) -> SuccessorProcess:
    kind = ChildOfSystemd if SYSTEMD in environ else ChildProcess
    return kind(command, environ, passed)


def new_program(argv: Sequence[str], executable: str = sys.executable) -> list[str]:
    """The command line of the program as it is installed now, with the arguments of this process.

    That is the script that was started, since an upgrade may have replaced its interpreter; else the same interpreter.
    """
    script, *arguments = argv
    if os.path.isabs(script) and os.access(script, os.X_OK) and not script.endswith(".py"):
        return [script, *arguments]
    return [executable, "-m", "hotseat", *arguments]
