"""Processes of the measurement: pinned, paused, measured and ended, each by its pid. Linux only."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.processes import proc_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 20.0
MODEL_SERVERS = (b"upstream", b"llama-server")
"""Names of processes that never count as part of the proxy that started them."""

IDLE, WAITING, STOLEN = 3, 4, 7
ALL_CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = ALL_CORES[:1], ALL_CORES[1:2] or ALL_CORES[:1]
"""The proxy has a core of its own; generator and upstream share the other."""


class Failure(Exception):
    """The measurement cannot continue; says what happened, to which process, and where to look."""


class Service:
    """A background program; leaving the block ends it and all its child processes."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as sink:
            # A session each, as services have: the kernel divides processors among sessions first.
            self._process = subprocess.Popen(
                argv, stdout=sink, stderr=sink, env={**os.environ, **(environment or {})}, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        family = {pid: birth(pid) for pid in tree(self.pid, beyond=())}
        signal_each(family, signal.SIGCONT)
        try:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
        finally:
            # The start time distinguishes a process from a later one with the same pid.
            signal_each([pid for pid, born in family.items() if born and birth(pid) == born], signal.SIGKILL)
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def must_live(self) -> None:
        if self._process.poll() is not None:
            last_words = self.log.read_text(errors="replace")[-600:]
            raise Failure(f"{self.name} ended with {self._process.returncode}; {self.log} says:\n{last_words}")

    def processes(self) -> list[int]:
        """The program and its children, without model servers."""
        return tree(self.pid, beyond=MODEL_SERVERS)

    def pause(self) -> None:
        signal_each(self.processes(), signal.SIGSTOP)

    def resume(self) -> None:
        signal_each(self.processes(), signal.SIGCONT)

    def pin(self, cores: Iterable[int]) -> None:
        for pid in self.processes():
            for thread in threads(pid):
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cores)

    def cpu_s(self) -> float:
        """User and system time so far, of all threads and children; a tick is 10 ms on most systems."""
        return sum(map(ticks, self.processes())) / TICKS_PER_S

    def pss_mb(self) -> float:
        """Proportional set size."""
        return sum(map(pss_kb, self.processes())) / 1024


class Share:
    """The processor time that a virtual machine gets, from here on."""

    def __init__(self) -> None:
        self._begun, self._spent, self._own_s = time.monotonic(), spent(), own_s()

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def stolen(self) -> float:
        """The share that the hypervisor gave to others."""
        times = self._times()
        return times[STOLEN] / (sum(times) or 1)

    def used_by_others(self) -> float:
        """The share that programs used which are no part of the run; ask when the run's processes have ended."""
        times, own = self._times(), (own_s() - self._own_s) * TICKS_PER_S
        used = sum(times) - times[IDLE] - times[WAITING] - times[STOLEN]
        return max(0.0, used - own) / (sum(times) or 1)

    def _times(self) -> list[int]:
        return [now - then for now, then in zip(spent(), self._spent, strict=True)]


def spent() -> list[int]:
    """Ticks of all processors so far: user, nice, system, idle, iowait, two kinds of interrupts, stolen."""
    return list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1 : STOLEN + 2]))


def own_s() -> float:
    """Processor time of this process and of all its descendants that have ended."""
    return sum(os.times()[:4])


def pinned(argv: Sequence[str], cores: Sequence[int]) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, cores)), *argv]


def tree(pid: int, beyond: tuple[bytes, ...]) -> list[int]:
    """A process and its descendants, parents first; those named in `beyond` are left out with all of theirs."""
    if proc_file(pid, "comm").strip() in beyond:
        return []
    children = [int(child) for thread in threads(pid) for child in proc_file(pid, f"task/{thread}/children").split()]
    return [pid, *(descendant for child in children for descendant in tree(child, beyond))]


def threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:  # gone
        return []


def ticks(pid: int) -> int:
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def pss_kb(pid: int) -> int:
    lines = proc_file(pid, "smaps_rollup").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Pss:")), 0)


def birth(pid: int) -> int:
    """When it was started, in ticks since boot; 0 once it has ended."""
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return int(fields[19]) if fields and fields[0] != b"Z" else 0


def signal_each(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for(what: str, is_so: Callable[[], bool], within: float = PATIENCE_S) -> None:
    """Return once the condition holds; raise when it takes too long."""
    until = time.monotonic() + within
    while not is_so():
        if time.monotonic() > until:
            raise Failure(f"{what} within {within:g} s")
        time.sleep(0.02)
