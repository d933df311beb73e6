"""The descendants of a guard, recorded in a file: the next start finds processes that outlived hotseat and its guard.

The marker in the environment identifies most of them. A process that cleared its environment and has its own session is
identified only by its ancestors, which are gone by then. Used by the guard: standard library only. Linux only.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from hotseat.model_servers.os_processes import PROC, exists, processes, stat_of

ENDING = ".json"
FORMAT = 1


class NewerRecord(Exception):
    """Of a newer version, which alone knows what it says."""


class PidScope(NamedTuple):
    """While both are the same, a pid and a start time identify one process."""

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
    def pid_scope(self) -> PidScope:
        return PidScope(self.boot, self.pid_namespace)

    @property
    def has_guard(self) -> bool:
        return is_running(self.guard, self.guard_start)

    def alive(self) -> set[int]:
        """The recorded processes that still exist, and all their descendants."""
        left = {pid for pid, start in self.descendants.items() if start_of(pid) == start}
        return left.union(*(descendants(pid) for pid in left))


class Register:
    """The file of one guard. Errors while writing it are ignored."""

    def __init__(self, folder: str) -> None:
        pid_scope = current_pid_scope() if folder else None
        self._path = os.path.join(folder, f"{os.getpid()}{ENDING}")
        self._own = None if pid_scope is None else Record(*pid_scope, os.getpid(), start_of(os.getpid()) or 0, {})

    @property
    def is_kept(self) -> bool:
        return self._own is not None

    def note_descendants(self) -> None:
        """Scan all descendants and write the file if they changed."""
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
    """Start times of all descendants, by pid; reads the stat of every process on the machine."""
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
    """Start time in clock ticks since boot; None: there is no such process, or a zombie."""
    stat = stat_of(pid)
    return int(stat[19]) if stat and stat[0] not in (b"Z", b"X") else None


def is_running(pid: int, started: int | None) -> bool:
    """Whether it is still the same process, and no zombie; without /proc, whether there is such a process.

    A look that fails, because no file descriptor is left, says nothing: what exists counts as the same process then.
    Who is going to signal it asks `start_of` instead, which then says that it is unknown.
    """
    if started is None:
        return exists(pid)
    found = start_of(pid)
    return found == started or (found is None and exists(pid) and start_of(os.getpid()) is None)


def current_pid_scope() -> PidScope | None:
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id") as boot:
            return PidScope(boot.read().strip(), os.readlink(f"{PROC}/self/ns/pid"))
    except OSError:
        return None


def write(path: str, record: Record) -> None:
    """Atomic: readers see the old file or the new one."""
    beside = f"{path}.new"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"format": FORMAT, **record._asdict()}, file)
    os.replace(beside, path)


def read(path: str) -> Record | None:
    """None: not a valid record; raises NewerRecord."""
    try:
        with open(path) as file:
            kept: dict[str, Any] = json.load(file)
        if int(kept.pop("format", FORMAT)) > FORMAT:  # records of the first format may not state it
            raise NewerRecord
        numbers = {int(pid): int(start) for pid, start in kept["descendants"].items()}
        return Record(**{**kept, "descendants": numbers})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
