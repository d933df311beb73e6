"""How we go: on the first signal in peace, on the second at once.

A load balancer that asks `/hotseat/ready` needs a moment to hear that it should send nobody any more, and meanwhile
it does send somebody. Where nobody asked lately there is nobody to tell, and the moment is saved.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, Seconds

LATELY_S: Seconds = 60.0
"""Whoever asks more rarely than this would hear of it too late anyway."""
FELLOWS_HEAR_S: Seconds = 1.0
"""Records of hosts come five times a second at most. Whoever dials as the door closes cannot know what became of it."""


class Leaving:
    def __init__(self) -> None:
        self.wished = asyncio.Event()
        self.at_once = asyncio.Event()
        self._asked: Instant | None = None

    def wish(self) -> None:
        """A signal."""
        if self.wished.is_set():
            self.at_once.set()
        self.wished.set()

    def is_closing(self) -> bool:
        """What somebody is told who asks whether to send requests here; that there is somebody is remembered."""
        self._asked = asyncio.get_running_loop().time()
        return self.wished.is_set()

    async def give_notice(self, within: Seconds, *, to_fellows: bool = False) -> None:
        """Let time pass in which business goes on, if anybody is there to take notice; fellows are, and hear soon."""
        now = asyncio.get_running_loop().time()
        is_watched = self._asked is not None and now - self._asked <= LATELY_S
        notice_s = max(within if is_watched else 0.0, FELLOWS_HEAR_S if to_fellows else 0.0)
        if notice_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.at_once.wait(), notice_s)
