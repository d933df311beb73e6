"""Podman's monitor of a container (conmon): it removes the container after its end, and must not be killed before.

It leaves the client's session and environment behind, so only its arguments show whose it is. Used by the guard:
standard library only. Docker's monitors are children of its daemon.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.model_servers.descendants import descendants
from hotseat.model_servers.os_processes import command_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MONITOR_S = 5.0
"""For a monitor to remove a container, after the end of the container or of its client."""
CLEANUP = "cleanup"
"""A word of the command that a monitor runs at the end."""


def is_monitor(pid: int) -> bool:
    return any(word.rpartition("/")[2] == "conmon" for word in command_line(pid)[:1])


def is_monitor_of(pid: int, client: Sequence[str]) -> bool:
    """Whether it monitors the container that this command named."""
    if not is_monitor(pid):
        return False
    names = [name for option, name in pairwise(command_line(pid)) if option == "-n"]
    return any(f"--name={name}" in client or ("--name", name) in pairwise(client) for name in names)


def to_kill(pids: Collection[int], *, is_late: bool) -> list[int]:
    """What to kill of these processes: containers instead of their monitors, which then end by themselves, or both."""
    monitors = {pid for pid in pids if is_monitor(pid)}
    contained = [below for pid in monitors for below in descendants(pid) if CLEANUP not in command_line(below)]
    return [*(pid for pid in pids if is_late or pid not in monitors), *contained]
