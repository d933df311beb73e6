"""The new process as the old one sees it, from its start until the old one ends.

It is started as a child of this process or, if systemd follows this one, as a child of systemd, which waits for the end
of its own children only: it would kill another main process at once instead of stopping it, and would not restart it
after a crash.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from hotseat.errors import RestartFailed
from hotseat.handover.channel import Channel, Closed, command_in
from hotseat.handover.predecessor import VERSION
from hotseat.handover.stand_in import HANDOVER, shell_code
from hotseat.model_servers.descendants import is_running, start_of
from hotseat.model_servers.os_processes import without_subreaper
from hotseat.tasks import Tasks, attempt
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotseat.handover.channel import Message, ToRequests
    from hotseat.identifiers import Seconds

ENDED = "the new process ended before it took over; see the log"
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


class Listening(Struct, frozen=True):
    """Sockets that the new process goes on to listen at, and the addresses for which they were opened."""

    sockets: Sequence[socket.socket]
    ollama_sockets: Sequence[socket.socket]
    listen: tuple[str, int]
    ollama_listen: tuple[str, int] | None
    by_systemd: bool
    first: tuple[int, int | None] | None = None
    """Pid and start time of the process that whoever started hotseat knows; None: systemd knows the newest."""

    def facts(self) -> dict[str, Any]:
        return {
            "sockets": len(self.sockets),
            "listen": self.listen,
            "ollama_listen": self.ollama_listen,
            "by_systemd": self.by_systemd,
            "first": self.first,
        }

    def fds(self) -> list[int]:
        return [sock.fileno() for sock in (*self.sockets, *self.ollama_sockets)]


class Successor:
    def __init__(
        self,
        process: SuccessorProcess,
        ours: socket.socket,
        listening: Listening,
        carry_out: Callable[[ToRequests], None],
    ) -> None:
        """`carry_out` gets its decisions about the requests of this process."""
        self._process, loop = process, asyncio.get_running_loop()
        self._carry_out = carry_out
        self._management: asyncio.Future[str] = loop.create_future()
        self.failure: asyncio.Future[str] = loop.create_future()
        """Why it cannot take over, or that it has ended."""
        self.is_listening: asyncio.Future[None] = loop.create_future()
        self.channel = Channel(ours)
        self.channel.send("hello", *listening.fds(), version=VERSION, **listening.facts())
        self._tasks = Tasks()
        self._tasks.start(self._listen(), "messages of the new process")

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self, within: Seconds) -> str:
        """Return the path of its management API when it could take over at once; RestartFailed if it cannot."""
        await self._until(self._management, within)
        if self._management.done():
            return self._management.result()
        raise RestartFailed(self.reason or f"the new process was not ready within {within:g} s")

    async def listening(self, within: Seconds) -> None:
        """Return when it accepts connections. RestartFailed: it has ended, or was killed because it took too long."""
        await self._until(self.is_listening, within)
        if self.is_listening.done():
            return
        if not self.failure.done():
            self._fail(f"the new process took the model servers and did not listen within {within:g} s")
            self.send_signal(signal.SIGKILL)
        raise RestartFailed(self.reason)

    async def _until(self, awaited: asyncio.Future[Any], within: Seconds) -> None:
        """Return when it is done, when the process has failed, or after this time."""
        await asyncio.wait([awaited, self.failure], timeout=within, return_when=asyncio.FIRST_COMPLETED)

    @property
    def reason(self) -> str:
        """Why it failed; empty if it has not."""
        return self.failure.result() if self.failure.done() else ""

    async def end(self) -> None:
        """Kill it: it has not taken over."""
        await self._tasks.aclose()
        self.channel.close()
        self.send_signal(signal.SIGKILL)
        await self.exit_code()

    async def exit_code(self) -> int:
        """Return when it has ended."""
        return await asyncio.to_thread(self._process.exit_code)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def _listen(self) -> None:
        try:
            while True:
                attempt(self._note, await self.channel.receive())
        except Closed:
            self._fail(ENDED)

    def _note(self, message: Message) -> None:
        match message.kind:
            case "ready" if not self._management.done():
                self._management.set_result(message.facts["management"])
            case "failed":
                self._fail(message.facts["reason"])
            case "listening" if not self.is_listening.done():
                self.is_listening.set_result(None)
            case _:
                if (command := command_in(message)) is not None:
                    self._carry_out(command)

    def _fail(self, reason: str) -> None:
        if not self.failure.done():
            self.failure.set_result(reason)


async def started(environ: Mapping[str, str]) -> tuple[SuccessorProcess, socket.socket]:
    """The newly installed program, and our end of the connection to it; RestartFailed: it cannot be started."""
    given_up, signals = threading.Event(), signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def start() -> tuple[SuccessorProcess, socket.socket]:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)  # the new process inherits it
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                fd = theirs.fileno()
                process = start_process(new_program(sys.argv), {**environ, HANDOVER: str(fd)}, fd)
        except OSError:
            ours.close()
            raise
        if given_up.is_set():
            ours.close()
            process.send_signal(signal.SIGKILL)
            process.exit_code()
        return process, ours

    try:
        return await look_at_disk("the program", start)
    except OSError as problem:
        raise RestartFailed(f"the new process could not be started: {problem}") from None
    finally:
        given_up.set()


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
