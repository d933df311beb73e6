"""Messages between hosts and NATS, counted by NATS."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.nats import NatsServer

HOSTS = "hotseat "
"""The prefix of their connection names."""


@dataclass(frozen=True, slots=True)
class Control:
    """Per host and second."""

    messages: float
    bytes: float
    requests_per_s: float

    @classmethod
    def between(
        cls, before: Counter[str], after: Counter[str], seconds: float, hosts: int, requests_per_s: float
    ) -> Control:
        said = after - before
        messages, size = said["in_msgs"] + said["out_msgs"], said["in_bytes"] + said["out_bytes"]
        return cls(messages / seconds / hosts, size / seconds / hosts, requests_per_s)

    def __str__(self) -> str:
        said = f"{self.messages:.1f} messages and {self.bytes / 1000:.1f} kB per host and second"
        return f"{self.requests_per_s:.1f} requests/s: {said}"


async def control_of(servers: list[NatsServer]) -> Counter[str]:
    """Of all connections of hosts since they were opened, in both directions."""
    total: Counter[str] = Counter()
    for server in servers:
        for connection in (await asyncio.to_thread(server.monitoring, "connz"))["connections"]:
            if connection.get("name", "").startswith(HOSTS):
                total.update({key: connection[key] for key in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")})
    return total
