"""Limits the memory and disk space of all request bodies together, counted as they arrive."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hotseat.errors import Busy

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes
    from hotseat.relay.http.body import Body
    from hotseat.settings import Limits

MOST_IN_MEMORY: Bytes = 512 << 20
"""All clients together."""


class Bodies:
    def __init__(self) -> None:
        self.in_memory: Bytes = 0
        """Without small bodies."""
        self.on_disk: Bytes = 0
        self._on_disk_of: Counter[str] = Counter()
        """By sender address."""

    def count(self, body: Body) -> None:
        """Update the count of a body to its current size."""
        in_memory = 0 if body.is_spooled else body.size
        self.in_memory += in_memory - body.counted
        body.counted = in_memory
        if body.is_spooled or body.counted_on_disk:
            self._count_on_disk(body, body.size - in_memory)

    def _count_on_disk(self, body: Body, size: Bytes) -> None:
        more = size - body.counted_on_disk
        body.counted_on_disk = size
        self.on_disk += more
        self._on_disk_of[body.sender] += more
        if not self._on_disk_of[body.sender]:
            del self._on_disk_of[body.sender]

    def check(self, body: Body, limits: Limits, *, is_proxy: bool) -> None:
        """Raises if bodies take too much. One address may use half of the disk limit, a proxy all of it."""
        if self.in_memory > MOST_IN_MEMORY:
            raise Busy("too many large requests at once. Try again in a moment.", retry_after=1)
        if body.is_spooled:
            self._check_disk(self._on_disk_of[body.sender], limits, is_proxy)

    def _check_disk(self, of_sender: Bytes, limits: Limits, is_proxy: bool) -> None:
        most = limits.most_uploads
        if self.on_disk > most:
            raise Busy(f"concurrent uploads exceed {most} bytes (limits.uploads). Try again later.", retry_after=1)
        if of_sender > max(most // 2, limits.body) and not is_proxy:
            raise Busy("the uploads from this address use half of limits.uploads. Try again later.", retry_after=1)

    def forget(self, body: Body) -> None:
        self.in_memory -= body.counted
        body.counted = 0
        if body.counted_on_disk:
            self._count_on_disk(body, 0)
        body.close()
