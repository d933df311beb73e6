"""The program that stands for all later processes, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

from hotseat.handover.stand_in import HANDOVER, HOME, PROGRAM, exit_code, holds_signals, shell_code, successors
from hotseat.model_servers.os_processes import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUCCESSOR = f"""
import os, signal, subprocess, sys
sys.path.append({HOME!r})
from hotseat.handover.stand_in import hold_signals
code, later = int(sys.argv[1]), sys.argv[2:]
signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
signal.signal(signal.SIGWINCH, lambda *_: hold_signals())
if later:
    subprocess.Popen([sys.executable, "-IS", __file__, *later], env={{"{HANDOVER}": "4"}})
while True:
    signal.pause()
"""
FIRST = f"""
import os, subprocess, sys
sys.path.append({HOME!r})
from hotseat.handover.stand_in import hold_signals
from hotseat.model_servers.os_processes import become_subreaper
become_subreaper()
guard = subprocess.Popen(["sleep", "1000"])
with open(sys.argv[1], "w") as file:
    file.write(str(guard.pid))
successor = subprocess.Popen([sys.executable, "-IS", *sys.argv[2:]], env={{"{HANDOVER}": "3"}})
hold_signals()
os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", {PROGRAM!r}, {HOME!r}, str(successor.pid)])
"""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Path]:
    """Where the first process writes the pid of its other child: as a guard may, it lives on."""
    file = tmp_path / "guard"
    yield file
    os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture
def start(guard: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """The first process, with a successor for each exit code, each the parent of the next."""
    program = tmp_path / "successor"
    program.write_text(SUCCESSOR)
    started: list[subprocess.Popen[bytes]] = []

    def start(*codes: int) -> subprocess.Popen[bytes]:
        first = subprocess.Popen([sys.executable, "-IS", "-c", FIRST, str(guard), str(program), *map(str, codes)])
        started.append(first)
        eventually(lambda: len(successors(first.pid)) == len(codes))
        eventually(lambda: all(map(is_waiting, successors(first.pid))))
        eventually(lambda: PROGRAM in Path(f"/proc/{first.pid}/cmdline").read_text())
        return first

    yield start
    left = [each for each in started if each.poll() is None]
    for each in left:
        each.kill()
        each.wait()
    assert not left


def is_waiting(pid: int) -> bool:
    """Has it set its signal handlers and unblocked them?"""
    return is_in("SigCgt", pid, signal.SIGTERM) and not signals_in("SigBlk", pid)


def stop(pid: int) -> None:
    """Returns when it is stopped: until then it would handle a signal of a lower number before this one."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: "State:\tT" in Path(f"/proc/{pid}/status").read_text())


def has_pending(pid: int, number: int) -> bool:
    return is_in("ShdPnd", pid, number)


def is_in(mask: str, pid: int, number: int) -> bool:
    return bool(signals_in(mask, pid) & 1 << (number - 1))


def signals_in(mask: str, pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(mask))


def test_a_signal_reaches_the_process_that_serves(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """The first process ends with its exit code; it waits for no other child."""
    first = start(7)
    first.send_signal(signal.SIGTERM)

    assert first.wait(60) == 7


def test_a_later_process_that_has_not_taken_over_yet(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """The signal goes to the older one, which serves; when that has ended, the newer one is the one that counts."""
    first = start(7, 8)
    older, newer = successors(first.pid)
    first.send_signal(signal.SIGTERM)
    eventually(lambda: successors(first.pid) == [newer])
    first.send_signal(signal.SIGTERM)

    assert older != newer
    assert first.wait(60) == 8


def test_two_processes_that_end_at_the_same_moment(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """The newer one counts, although it has ended before the first process could see that the older one has."""
    first = start(7, 8)
    older, newer = successors(first.pid)
    stop(older)
    first.send_signal(signal.SIGTERM)
    eventually(lambda: has_pending(older, signal.SIGTERM))
    stop(first.pid)
    os.kill(older, signal.SIGCONT)
    eventually(lambda: newer in children(first.pid))
    os.kill(newer, signal.SIGTERM)
    eventually(lambda: not successors(first.pid))
    first.send_signal(signal.SIGCONT)

    assert first.wait(60) == 8


def test_a_signal_while_the_process_between_is_ending(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """It goes to the process that serves, whose exit code counts: the one that is ending may pass on nothing more."""
    first = start(7, 8)
    ending, serving = successors(first.pid)
    os.kill(ending, signal.SIGWINCH)
    eventually(lambda: holds_signals(ending))
    first.send_signal(signal.SIGTERM)
    eventually(lambda: serving not in successors(first.pid))
    os.kill(ending, signal.SIGKILL)

    assert first.wait(60) == 8


def test_signals_that_arrived_during_the_end(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """They go to the next process or, if that is ending as well, to the one after it."""
    first = start(7, 8)
    ending, serving = successors(first.pid)
    os.kill(ending, signal.SIGWINCH)
    eventually(lambda: holds_signals(ending))
    passing_on = f"import os, signal; os.kill(os.getpid(), signal.SIGTERM); pass_on_held({ending})"
    begin = f"from hotseat.handover.stand_in import hold_signals, pass_on_held; hold_signals(); {passing_on}"
    subprocess.run([sys.executable, "-c", begin], check=True)
    eventually(lambda: serving not in successors(first.pid))
    os.kill(ending, signal.SIGKILL)

    assert first.wait(60) == 128 + signal.SIGKILL


def test_exit_codes() -> None:
    """As a shell reports them."""
    assert exit_code(3 << 8) == 3
    assert exit_code(signal.SIGKILL) == 128 + signal.SIGKILL
    assert shell_code(-15) == 143


def test_the_new_process_ends_before_the_first_one_waits(guard: Path) -> None:
    """Its exit code counts all the same."""
    at_once = FIRST.replace("os.execv(", "os.waitid(os.P_PID, successor.pid, os.WEXITED | os.WNOWAIT); os.execv(")
    first = subprocess.Popen([sys.executable, "-IS", "-c", at_once, str(guard), "-c", "raise SystemExit(9)"])

    assert first.wait(60) == 9
