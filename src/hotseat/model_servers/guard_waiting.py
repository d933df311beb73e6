"""When the guard looks at its processes: at signals and messages, and now and then for its record.

Used by the guard: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.model_servers.descendants import Register

SHORTEST_SCAN_S, LONGEST_SCAN_S = 0.25, 10.0
"""Between two scans of descendants; servers start most of theirs at their own start."""


class Scans:
    """Scans of descendants for the record, which the next hotseat reads if this guard is killed too."""

    def __init__(self, register: Register) -> None:
        self._register = register
        self._pause_s = SHORTEST_SCAN_S
        self._next_at = 0.0

    def scan_soon(self) -> None:
        self._next_at, self._pause_s = 0.0, SHORTEST_SCAN_S

    def scan_if_due(self, has_trees: bool) -> None:
        if not has_trees:
            return self.forget()
        if time.monotonic() < self._next_at:
            return None
        self._register.note_descendants()
        self._next_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_SCAN_S)
        return None

    def until_next_s(self, has_trees: bool) -> float | None:
        """None: no scan is due."""
        return max(0.0, self._next_at - time.monotonic()) if has_trees and self._register.is_kept else None

    def forget(self) -> None:
        self._register.remove()


class Waker:
    """Waits for descriptors and signals."""

    def __init__(self) -> None:
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def pause(self, readable: Collection[Any], within_s: float | None, writable: Collection[Any] = ()) -> None:
        poll = select.poll()
        for each in (*readable, self._woken):
            poll.register(each, select.POLLIN)
        for each in writable:
            poll.register(each, select.POLLIN | select.POLLOUT if each in readable else select.POLLOUT)
        poll.poll(None if within_s is None else within_s * 1000)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass
