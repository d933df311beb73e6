"""Limits for all clients together: connections, and the memory and disk space of request bodies.

Connections count from the moment the kernel hands them over, before TLS and the first byte; bodies as they arrive.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hotseat.errors import Busy
from hotseat.relay.access.authority import counted_as

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes, ClientId, Seconds
    from hotseat.relay.http.body import Body
    from hotseat.settings import Limits

MOST_BEYOND = 32
"""Connections beyond a limit that are read: operators and health checks are served, others get an error. Further ones
are closed silently, because a response takes time."""
BEYOND_S: Seconds = 2.0
"""Time for their first head."""
MOST_FEEDS = 64
"""Of one client: each change of a model costs for each of them."""
MOST_IN_MEMORY: Bytes = 512 << 20
"""All bodies together, and the responses that are translated as a whole."""
OF_OPERATORS: Bytes = 64 << 20
"""For bodies of operators beyond that."""
SMALL_BODY: Bytes = 16 << 10
"""Up to this size a body is not refused for the sake of the total, and not counted if it arrives with its head."""


class Excess(NamedTuple):
    """Whose connections are too many, and whether this one is read."""

    source: str
    is_read: bool


class ConnectionCount:
    def __init__(self, fits: int | None) -> None:
        """`fits`: how many connections the process's file descriptors allow; None: any number."""
        self.total = 0
        self._fits = fits
        self._from: Counter[str] = Counter()
        self.feeds: dict[object, ClientId] = {}
        """Endless responses to callers below the role `operate`, and whose they are."""

    def add(self, peer: str, limits: Limits, *, is_proxy: bool) -> Excess | None:
        """Count it; returns what it exceeds, if anything. A trusted proxy stands for many clients."""
        self.total += 1
        address = counted_as(peer)
        self._from[address] += 1
        most, per_address = self.bounds(limits)
        beyond, of_address = self.total - most, 0 if is_proxy else self._from[address] - per_address
        if beyond <= 0 and of_address <= 0:
            return None
        # An address that has all of its places gets none of those beyond the limit of all.
        is_read = max(beyond, of_address) <= MOST_BEYOND and min(beyond, of_address) <= 0
        return Excess("all clients" if beyond > 0 else "this address", is_read)

    def remove(self, peer: str) -> None:
        self.total -= 1
        address = counted_as(peer)
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def bounds(self, limits: Limits) -> tuple[int, int]:
        """The limits in total and per address."""
        if self._fits is None or limits.connections <= self._fits:
            return limits.connections, limits.per_address
        return self._fits, min(limits.per_address, max(1, self._fits // 2))

    def open_feed(self, feed: object, client: ClientId, limits: Limits, *, is_proxy: bool) -> None:
        """Raises if such feeds would take more than a quarter of all places, or one client too many of them."""
        if len(self.feeds) >= self.bounds(limits)[0] // 4:
            raise Busy("too many event feeds are open. Close some, or try again later.", retry_after=10)
        if not is_proxy and [*self.feeds.values()].count(client) >= MOST_FEEDS:
            raise Busy(f"this client has {MOST_FEEDS} event feeds open. Close some first.", retry_after=10)
        self.feeds[feed] = client


class Bodies:
    def __init__(self) -> None:
        self.in_memory: Bytes = 0
        """Without small bodies."""
        self.on_disk: Bytes = 0
        self._in_memory_of: Counter[str] = Counter()
        self._on_disk_of: Counter[str] = Counter()
        """By client."""

    def count(self, body: Body) -> None:
        """Update the count of a body to its current size."""
        in_memory = 0 if body.is_spooled else body.size
        self._count_in_memory(body, in_memory)
        if body.is_spooled or body.counted_on_disk:
            self._count_on_disk(body, body.size - in_memory)

    def _count_in_memory(self, body: Body, size: Bytes) -> None:
        more = size - body.counted
        body.counted = size
        self.in_memory += more
        self._in_memory_of[body.sender] += more
        if not self._in_memory_of[body.sender]:
            del self._in_memory_of[body.sender]

    def _count_on_disk(self, body: Body, size: Bytes) -> None:
        more = size - body.counted_on_disk
        body.counted_on_disk = size
        self.on_disk += more
        self._on_disk_of[body.sender] += more
        if not self._on_disk_of[body.sender]:
            del self._on_disk_of[body.sender]

    def check(self, body: Body, limits: Limits, *, is_proxy: bool) -> None:
        """Raises if bodies take too much. One client may use half of each limit, a proxy all of it."""
        if body.size > SMALL_BODY:
            self._check_memory(body, limits, is_proxy=is_proxy)
        if not body.is_spooled:
            return
        most = limits.most_uploads
        if self.on_disk > most:
            raise Busy(f"concurrent uploads exceed {most} bytes (limits.uploads). Try again later.", retry_after=1)
        if self._on_disk_of[body.sender] > max(most // 2, limits.body) and not is_proxy:
            raise Busy("the uploads of this client use half of limits.uploads. Try again later.", retry_after=1)

    def _check_memory(self, body: Body, limits: Limits, *, is_proxy: bool) -> None:
        if self.in_memory > MOST_IN_MEMORY + (OF_OPERATORS if body.is_privileged else 0):
            raise Busy("too many large requests or responses at once. Try again in a moment.", retry_after=1)
        if self._in_memory_of[body.sender] > max(MOST_IN_MEMORY // 2, limits.json_body) and not is_proxy:
            text = "the requests and responses of this client take half of the memory for all of them"
            raise Busy(f"{text}. Send fewer large ones at once, or try again in a moment.", retry_after=1)

    def forget(self, body: Body) -> None:
        self._count_in_memory(body, 0)
        if body.counted_on_disk:
            self._count_on_disk(body, 0)
        body.close()
