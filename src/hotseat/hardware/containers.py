"""Finds the processes of a container that a model's command started.

They are not descendants of the command: podman and docker's daemon start each container below a process of their own.
The command line shows which container is whose: that of its first process ends with the words that follow the image in
`docker run`. This needs neither the engine nor any right, but the container must run on this machine, in view of this
process; a command that ends with the image cannot be matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.estimates.command import container_run
from hotseat.hardware.process_table import by_parent, command_line, descendants, started_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotseat.hardware.process_table import Process

PARENTS = ("conmon", "containerd-shim")
"""Of a container's first process, as `ps` shows them: podman's, and docker's (containerd-shim-runc-v2)."""


def with_containers(
    trees: Mapping[int, Sequence[int]], processes: Mapping[int, Process], proc: Path
) -> dict[int, Sequence[int]]:
    """The trees that contain the client of a container, together with the container's processes.

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
