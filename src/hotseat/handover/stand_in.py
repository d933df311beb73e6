"""What the first process becomes after a restart, if nothing else can follow the new one: a small program that waits.

Whoever started hotseat, such as a shell, a container runtime or supervisord, knows its first pid only. That pid passes
signals on to the process that serves now and ends with its exit code; the serving process stops when it is killed. As
a subreaper it becomes the parent of later successors, too. It runs in an isolated interpreter without site-packages:
standard library and os_processes.py only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.os_processes import blocked_signals, children, variable_of

if TYPE_CHECKING:
    from collections.abc import Sequence

HANDOVER = "HOTSEAT_HANDOVER"
"""Environment variable of every process that replaces another: the number of the socket between them."""
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
EXIT_S, AGAIN_S = 1.0, 0.01
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from hotseat.handover.stand_in import wait; wait()"
HOME = str(Path(__file__).parents[2])


def hold_signals() -> None:
    """None may be lost between this program and the next: the new one receives them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)


def become_stand_in(successor: int) -> None:
    """Replace this process; never returns."""
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", PROGRAM, HOME, str(successor)])


def wait() -> None:
    """End with the last process that served, and with its exit code.

    The guard becomes a child of this process, too, and is not waited for: it may keep the model servers for the next
    hotseat, which is started when this process has ended.
    """
    code, seen = 0, {int(sys.argv[2])}  # that one may have ended by now
    # Blocked signals stay pending until they are asked for; one that came just before os.wait() would not interrupt it.
    awaited = {*PASSED_ON, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    with suppress(ChildProcessError):
        while seen:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in seen:
                code = exit_code(status)
                seen.update(successors(os.getpid()))
                seen.intersection_update(children(os.getpid()))
            if not pid and (number := signal.sigwait(awaited)) in PASSED_ON:
                seen.update(pass_on(number))
    sys.exit(code)


def exit_code(status: int) -> int:
    return shell_code(os.waitstatus_to_exitcode(status))


def shell_code(code: int) -> int:
    """As a shell reports it, if a signal has ended the process."""
    return code if code >= 0 else 128 - code


def pass_on(number: int) -> list[int]:
    """Wait for a process that receives it: the one between this and the newest may be ending.

    Returns all that live: the signal may end them, and nothing shows what an ended process was.
    """
    until = time.monotonic() + EXIT_S
    while not send_to_oldest(alive := successors(os.getpid()), number) and time.monotonic() < until:
        time.sleep(AGAIN_S)
    return alive


def pass_on_held(successor: int) -> None:
    """Those that arrived since `hold_signals`, before this process ends."""
    for number in signal.sigpending().intersection(PASSED_ON):
        send_to_oldest([successor, *successors(successor)], number)


def send_to_oldest(pids: Sequence[int], number: int) -> bool:
    """To the oldest that is not ending, which serves or passes it on: a newer one may not have taken over yet."""
    for pid in pids:
        if not holds_signals(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                return True
    return False


def holds_signals(pid: int) -> bool:
    """It is ending: what it receives from now on may come too late to be passed on."""
    return bool(blocked_signals(pid) & 1 << (PASSED_ON[0] - 1))


def successors(pid: int) -> list[int]:
    """The processes that have replaced this one and each other, the newest last."""
    found = [child for child in children(pid) if variable_of(child, HANDOVER)]
    below = [each for child in found for each in successors(child)]
    return sorted([*found, *below], key=lambda each: start_of(each) or 0)
