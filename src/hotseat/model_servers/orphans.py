"""Ends what an earlier hotseat left behind: it and its guard were killed, and a descendant lives on.

The kernel then ends the servers themselves, but not what they had started. Every process of a launch has our marker
unless it cleared its environment; those that did are in the guard's record (descendants.py). A process that is still
looked after has a guard among its ancestors.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.model_servers.descendants import ENDING, NewerRecord, current_pid_scope, read
from hotseat.model_servers.monitors import is_monitor_of, to_kill
from hotseat.model_servers.os_processes import GUARD, PROC, kill_each, marker_of, parent_of, processes
from hotseat.model_servers.private_folders import make_private

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

log = logging.getLogger(__name__)


def private_folder(path: Path | None) -> str:
    """The folder, created if missing; empty if there is none or it cannot be created."""
    if path is None:
        return ""
    try:
        make_private(path)
    except OSError as problem:
        log.warning("the process record cannot be written folder=%s error=%r", path, str(problem))
        return ""
    return str(path)


def end_leftovers(records: str) -> None:
    """Kill them before anything starts that needs their memory."""
    if found := leftovers(records):
        log.warning("stopping model servers left by an earlier hotseat pids=%s", ",".join(map(str, found)))
        kill_each(to_kill(found, is_late=False))


def leftovers(records: str, commands: Collection[Sequence[str]] = ()) -> list[int]:
    """What launches have left that nobody looks after any more, with the monitors of containers of these commands."""
    suspects = {pid for pid in processes() if marker_of(pid)} | (recorded(records) if records else set())
    suspects |= {pid for pid in processes() if any(is_monitor_of(pid, command) for command in commands)}
    return sorted(pid for pid in suspects if is_abandoned(pid))


def recorded(folder: str) -> set[int]:
    """Recorded processes of guards that are gone; removes those records."""
    return set().union(*(descendants_in(path) for path in Path(folder).glob(f"*{ENDING}")))


def descendants_in(path: Path) -> set[int]:
    try:
        record, pid_scope = read(str(path)), current_pid_scope()
    except NewerRecord:
        return set()  # its guard may still live
    if record and pid_scope and record.pid_scope != pid_scope and record.boot == pid_scope.boot:
        return set()  # of another container with the same folder: its pids mean nothing here
    if record and record.pid_scope == pid_scope and record.has_guard:
        return set()
    with contextlib.suppress(OSError):
        path.unlink()
    return record.alive() if record and record.pid_scope == pid_scope else set()


def is_abandoned(pid: int) -> bool:
    """True only if certainly no ancestor is a guard."""
    while parent := parent_of(pid):
        if is_guard(parent):
            return False
        pid = parent
    return parent == 0  # None: an ancestor has just ended, and the new parent is unknown


def is_guard(pid: int) -> bool:
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as command:
            return GUARD.encode() in command.read().split(b"\0")
    except OSError:
        return True  # gone or hidden: it may be one
