"""Podman's monitor of a container (conmon): it removes the container after its end, and must not be killed before.

It leaves the client's session and environment behind, so only its arguments show whose it is. Used by the guard:
standard library only. Docker's monitors are children of its daemon.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.model_servers.descendants import descendants
from hotseat.model_servers.os_processes import PROC, command_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MONITOR_S = 5.0
"""For a monitor to remove a container, after the end of the container or of its client."""


def is_monitor(pid: int) -> bool:
    return any(word.rpartition("/")[2] == "conmon" for word in command_line(pid)[:1])


def is_monitor_of(pid: int, client: Sequence[str]) -> bool:
    """Whether it monitors the container that this command named."""
    if not is_monitor(pid):
        return False
    names = [name for option, name in pairwise(command_line(pid)) if option == "-n"]
    return any(f"--name={name}" in client or ("--name", name) in pairwise(client) for name in names)


def to_kill(pids: Collection[int], *, is_late: bool) -> list[int]:
    """What to kill of these processes: containers instead of their monitors, which then end by themselves, or both.

    The programs by which a monitor removes its container (`podman container cleanup` and its children) are spared, too.
    """
    monitors = {pid for pid in pids if is_monitor(pid)}
    below = [(each, monitor) for monitor in monitors for each in descendants(monitor)]
    contained = {each for each, monitor in below if is_contained(each, monitor)}
    spared = set() if is_late else monitors.union(each for each, _ in below) - contained
    return sorted(contained.union(pids) - spared)


def is_contained(pid: int, monitor: int) -> bool:
    """Whether a descendant of a monitor is of its container: these alone have another mount namespace.

    Command lines do not tell: a process has none while it becomes another program.
    """
    try:
        return mount_namespace(pid) != mount_namespace(monitor)
    except PermissionError:  # of another user, as only a container's process can be
        return True
    except OSError:
        return False  # it is gone


def mount_namespace(pid: int) -> str:
    return os.readlink(f"{PROC}/{pid}/ns/mnt")
