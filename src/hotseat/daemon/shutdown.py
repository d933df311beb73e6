"""Shutdown: graceful on the first signal, immediate on the second. SIGUSR1 leaves the servers to the next hotseat.

A load balancer that polls `/hotseat/ready` needs a moment to notice, and keeps sending requests meanwhile. If nothing
polled it lately, the delay is skipped.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, Seconds

LATELY_S: Seconds = 60.0
"""A slower poller would notice too late anyway."""
HOSTS_NOTICE_S: Seconds = 1.0
"""Hosts publish their state at most five times a second. A connection during the close has an unknown outcome."""


class ShutdownSequence:
    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self.keeps_servers = False
        """The next hotseat process gets them; only if `crashGrace` lets them wait for it."""
        self._polled_at: Instant | None = None

    def request(self) -> None:
        """Handle a signal that stops everything."""
        if self.requested.is_set():
            self.at_once.set()
        self.keeps_servers = False
        self.requested.set()

    def request_keeping_servers(self) -> None:
        """Handle the signal of a restart by systemd; a stop that has begun stays one."""
        if not self.requested.is_set():
            self.keeps_servers = True
            self.requested.set()

    def is_closing(self) -> bool:
        """Answers a readiness poll, and remembers that there was one."""
        self._polled_at = asyncio.get_running_loop().time()
        return self.requested.is_set()

    async def keep_serving(self, within: Seconds, *, to_hosts: bool) -> None:
        """Keep serving for a while if a load balancer or other hosts have to notice."""
        now = asyncio.get_running_loop().time()
        is_watched = self._polled_at is not None and now - self._polled_at <= LATELY_S
        notice_s = max(within if is_watched else 0.0, HOSTS_NOTICE_S if to_hosts else 0.0)
        if notice_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.at_once.wait(), notice_s)
