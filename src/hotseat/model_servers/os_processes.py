"""Operating system functions: start a program, list processes and find out whose they are.

The guard uses this too: standard library only, and quick to import. macOS has no /proc; there, no children of a process
are known, and process groups must do.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MARKER = "HOTSEAT_LAUNCH"
"""Environment variable that marks a process as part of a launch, whatever its parent or session."""
GUARD = "hotseat-guard"
"""An argument of every guard of every version: no hotseat ends what the guard of another one looks after."""

BEGIN_S = 5.0
"""For a program to begin: where a file system does not respond, that may take for ever. Less than a guard's answer."""
PROC = "/proc"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


# Starting


def run_program(program: str, argv: Sequence[str], env: Mapping[str, str], output: int) -> int:
    """Start a program in its own session and return its pid; OSError if it cannot be run. Closes `output`."""
    read_end, write_end = os.pipe()
    guard = os.getpid()
    with open(read_end, "rb") as answer:
        try:
            pid = os.fork()
            if not pid:
                become(program, argv, env, output, write_end, guard)
        finally:
            os.close(write_end)
            os.close(output)
        begun = select.poll()
        begun.register(answer)
        if not begun.poll(BEGIN_S * 1000):
            os.kill(pid, signal.SIGKILL)  # our child, which is collected when it ends
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        trouble = answer.read()  # ends when exec closes the other end
    if trouble:
        os.waitpid(pid, 0)
        raise OSError(int(trouble), os.strerror(int(trouble)))
    return pid


def become(program: str, argv: Sequence[str], env: Mapping[str, str], output: int, write_end: int, guard: int) -> None:
    """Exec `program` in this new fork, or report the error; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return  # the guard died before PR_SET_PDEATHSIG was set
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        restore_signals()
        os.execve(program, list(argv), env)
    except BaseException as problem:
        os.write(write_end, str(getattr(problem, "errno", None) or errno.EINVAL).encode())
    finally:
        os._exit(127)


def restore_signals() -> None:
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):  # SIGKILL and SIGSTOP
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def become_subreaper() -> bool:
    """Orphaned descendants become children of this process; False if the system cannot do that."""
    return prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def without_subreaper() -> Iterator[None]:
    """Descendants that are orphaned meanwhile become children of systemd or of the first process instead."""
    prctl(PR_SET_CHILD_SUBREAPER, 0)
    try:
        yield
    finally:
        become_subreaper()


def prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except AttributeError:  # macOS
        return False


# Ending
#
# A process is signalled by our own record of it only, never because nobody else seems to own it: a child that is not
# collected yet and its group, whose numbers are nobody else's; what descends from the guard, which begins without
# children; or a pid with our marker or from a record, by its start time (see test_foreign_processes.py).


def collect_one(before: Callable[[int], None]) -> tuple[int, int] | None:
    """Pid and wait status of a child that has ended; `before(pid)` is called while the pid is still reserved.

    None if all children live; ChildProcessError if there are none.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            before(pid)
        return (pid, status) if pid else None
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if not ended:
        return None
    before(ended.si_pid)
    return os.waitpid(ended.si_pid, 0)


def kill_each(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


# Inspecting


def marker_of(pid: int) -> str | None:
    """The marker at the start of a process; None: it has none, or its environment cannot be read."""
    return variable_of(pid, MARKER)


def variable_of(pid: int, name: str) -> str | None:
    """An environment variable at the start of a process; None: it has none, or its environment cannot be read.

    Any process of the machine may have any bytes there.
    """
    try:
        with open(f"{PROC}/{pid}/environ", "rb") as environ:
            variables = environ.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    value = next((entry.removeprefix(prefix) for entry in variables if entry.startswith(prefix)), None)
    return None if value is None else value.decode(errors="replace")


def command_line(pid: int) -> list[str]:
    """Empty if it is gone."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as words:
            return words.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def blocked_signals(pid: int) -> int:
    """Of its main thread, as a bit mask; 0 if the system does not say."""
    try:
        with open(f"{PROC}/{pid}/status", "rb") as status:
            return next((int(line.split()[1], 16) for line in status if line.startswith(b"SigBlk:")), 0)
    except OSError:
        return 0


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def children(parent: int) -> list[int]:
    """Including zombies."""
    try:
        return [pid for thread in os.listdir(f"{PROC}/{parent}/task") for pid in children_of_thread(parent, thread)]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN, or the process is gone
        return [pid for pid in processes() if parent_of(pid) == parent]


def children_of_thread(pid: int, thread: str) -> list[int]:
    with open(f"{PROC}/{pid}/task/{thread}/children") as listed:
        return [int(child) for child in listed.read().split()]


def processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]
    except FileNotFoundError:
        return []


def exists(pid: int) -> bool:
    """Including zombies; without /proc too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def parent_of(pid: int) -> int | None:
    fields = stat_of(pid)
    return int(fields[1]) if fields else None


def processor_time(pid: int | None) -> float:
    """CPU seconds of a process and its descendants; 0 if the kernel does not say."""
    fields = None if pid is None else stat_of(pid)
    if pid is None or fields is None:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(processor_time, children(pid)))


def stat_of(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on; None if there is no such process."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()  # a name may contain spaces and brackets
    except OSError:
        return None
