"""All processes, in one pass over /proc, and which of them belong to a model server or to its container.

A model server's processes are its descendants and the remaining members of the session that it leads: a worker whose
parent died is no longer a descendant. Without /proc no processes are visible.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.estimates.command import container_run
from hotseat.memory.kernel import PROC, text

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


PARENTS = ("conmon", "containerd-shim")
"""Of a container's first process, as `ps` shows them: podman's, and docker's (containerd-shim-runc-v2)."""


def with_containers(
    trees: Mapping[int, Sequence[int]], processes: Mapping[int, Process], proc: Path
) -> dict[int, Sequence[int]]:
    """The trees that contain the client of a container, together with the container's processes.

    These are not descendants of the command: podman and docker's daemon start each container below a process of their
    own. The command line shows which container is whose: that of its first process ends with the words that follow the
    image in `docker run`. This needs neither the engine nor any right, but the container must run on this machine, in
    view of this process; a command that ends with the image cannot be matched.

    A tree is missing if it has no such client, or if not exactly one container matches.
    """
    first = {pid: command_line(pid, proc) for pid in first_processes(processes)} if trees else {}
    children = by_parent(processes) if first else {}
    found = {root: containers_of(pids, first, proc) for root, pids in trees.items()}
    return {root: (*trees[root], *descendants(one, children)) for root, one in found.items() if len(one) == 1}


def first_processes(processes: Mapping[int, Process]) -> list[int]:
    return [
        pid
        for pid, process in processes.items()
        if (parent := processes.get(process.parent)) and parent.name in PARENTS and process.name not in PARENTS
    ]


def containers_of(tree: Sequence[int], first: Mapping[int, tuple[str, ...]], proc: Path) -> set[int]:
    """The first processes of containers that a client in this tree may have started."""
    runs = {pid: run for pid in tree if (run := container_run(command_line(pid, proc)))}
    return {
        pid
        for pid, argv in first.items()
        for client, run in runs.items()
        if ends_with(argv, run.arguments) and started_at(pid, proc) >= started_at(client, proc)
    }


def ends_with(argv: tuple[str, ...], arguments: tuple[str, ...]) -> bool:
    return bool(arguments) and argv[-len(arguments) :] == arguments
