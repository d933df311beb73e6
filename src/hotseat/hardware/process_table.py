"""All processes, in one pass over /proc: parent, session and name.

A model server's processes are its descendants and the remaining members of the session that it leads: a worker whose
parent died is no longer a descendant. Without /proc no processes are visible.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.hardware.kernel import PROC, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    session: int
    name: str
    """As `ps` shows it: fifteen characters at most."""


def census(proc: Path = PROC) -> dict[int, Process]:
    try:
        pids = [int(name) for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return {}
    return {pid: process for pid in pids if (process := look_at(pid, proc))}


def look_at(pid: int, proc: Path = PROC) -> Process | None:
    """None if it is gone."""
    head, bracket, tail = text(f"{proc}/{pid}/stat").rpartition(")")  # a name may contain brackets
    if not bracket:
        return None
    _state, parent, _group, session, *_ = tail.split()
    return Process(pid, int(parent), int(session), head.partition("(")[2])


def command_line(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """Empty if it is gone."""
    return tuple(text(f"{proc}/{pid}/cmdline").split("\0")[:-1])


def started_at(pid: int, proc: Path = PROC) -> int:
    """In clock ticks since boot; 0 if it is gone."""
    fields = text(f"{proc}/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def trees(roots: Iterable[int], processes: Mapping[int, Process]) -> dict[int, Sequence[int]]:
    """For each root that is alive, or has members left in its session: the pids that belong to it."""
    children = by_parent(processes)
    grown = {root: descendants(members_of(root, processes), children) for root in roots}
    return {root: pids for root, pids in grown.items() if pids}


def by_parent(processes: Mapping[int, Process]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    return children


def members_of(root: int, processes: Mapping[int, Process]) -> list[int]:
    return [pid for pid, process in processes.items() if root in (pid, process.session)]


def descendants(pids: Iterable[int], children: Mapping[int, Sequence[int]]) -> list[int]:
    """These and all their descendants, each once."""
    found = dict.fromkeys(pids)
    waiting = list(found)
    while waiting:
        born = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(dict.fromkeys(born))
        waiting += born
    return list(found)
