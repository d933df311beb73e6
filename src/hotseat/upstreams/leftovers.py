"""What an earlier hotseat left behind: it and its guard were both killed, and a grandchild of theirs lives on.

The kernel ends the servers themselves then, but not what they had started. Every process of a launch carries our
marker, and as long as anybody looks after it there is a guard among its ancestors.
"""

from __future__ import annotations

import logging

from hotseat.upstreams.processes import PROC, kill_each, marker_of, parent_of, processes

log = logging.getLogger(__name__)

GUARD = b"hotseat.upstreams.guard"


def end_leftovers() -> None:
    """End them before anything is started that needs their room."""
    if found := [pid for pid in processes() if marker_of(pid) and is_abandoned(pid)]:
        log.warning("ending what an earlier hotseat left behind pids=%s", ",".join(map(str, found)))
        kill_each(found)


def is_abandoned(pid: int) -> bool:
    """Is there certainly no guard among its ancestors?"""
    while parent := parent_of(pid):
        if GUARD in command_of(parent):
            return False
        pid = parent
    return parent == 0  # None: somebody on the way has just ended, and whose his children are now is unknown


def command_of(pid: int) -> bytes:
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as command:
            return command.read()
    except OSError:
        return GUARD  # gone or hidden: in doubt, it looks after them
