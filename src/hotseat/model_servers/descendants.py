"""The processes that grew from a guard, kept in a file: the next start finds whoever outlives hotseat and its guard.

The marker in the environment tells most of them. One that emptied its environment and lives in a session of its own is
told by nothing but its ancestors, and those are gone by then. The guard uses this: standard library only. Linux only.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from hotseat.model_servers.os_processes import PROC, processes, stat_of

ENDING = ".json"


class Era(NamedTuple):
    """While both are the same, a pid and a start time mean one process."""

    boot: str
    pid_namespace: str


class Record(NamedTuple):
    boot: str
    pid_namespace: str
    guard: int
    guard_start: int
    descendants: dict[int, int]
    """Start times by pid."""

    @property
    def era(self) -> Era:
        return Era(self.boot, self.pid_namespace)

    @property
    def has_guard(self) -> bool:
        return start_of(self.guard) == self.guard_start

    def alive(self) -> set[int]:
        """Those who are left, with all that they have started since."""
        left = {pid for pid, start in self.descendants.items() if start_of(pid) == start}
        return left.union(*(descendants(pid) for pid in left))


class Register:
    """One guard's file. It cannot be written: then it is not, and everything else goes on."""

    def __init__(self, folder: str) -> None:
        era = present_era() if folder else None
        self._path = os.path.join(folder, f"{os.getpid()}{ENDING}")
        self._own = None if era is None else Record(*era, os.getpid(), start_of(os.getpid()) or 0, {})

    @property
    def is_kept(self) -> bool:
        return self._own is not None

    def note_descendants(self) -> None:
        """Look at them all; the file is written where they changed."""
        if self._own is None:
            return
        found = descendants(os.getpid())
        if found != self._own.descendants:
            self._own = self._own._replace(descendants=found)
            with contextlib.suppress(OSError):
                write(self._path, self._own)

    def remove(self) -> None:
        if self._own is not None and self._own.descendants:
            self._own = self._own._replace(descendants={})
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def descendants(root: int) -> dict[int, int]:
    """Start times of all processes below a process, by pid; one look at each process of the machine."""
    stats = {pid: stat for pid in processes() if (stat := stat_of(pid))}
    below: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        below.setdefault(int(stat[1]), []).append(pid)
    found: dict[int, int] = {}
    to_visit = [*below.get(root, ())]
    while to_visit:
        pid = to_visit.pop()
        found[pid] = int(stats[pid][19])
        to_visit += below.get(pid, ())
    return found


def start_of(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where there is none, or only its remains."""
    stat = stat_of(pid)
    return int(stat[19]) if stat and stat[0] not in (b"Z", b"X") else None


def present_era() -> Era | None:
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id") as boot:
            return Era(boot.read().strip(), os.readlink(f"{PROC}/self/ns/pid"))
    except OSError:
        return None


def write(path: str, record: Record) -> None:
    """Readers see the old file or the new one, never half of one."""
    beside = f"{path}.new"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record._asdict(), file)
    os.replace(beside, path)


def read(path: str) -> Record | None:
    """None where it is no record of ours."""
    try:
        with open(path) as file:
            kept: dict[str, Any] = json.load(file)
        numbers = {int(pid): int(start) for pid, start in kept["descendants"].items()}
        return Record(**{**kept, "descendants": numbers})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
