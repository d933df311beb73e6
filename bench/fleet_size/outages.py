"""The return of NATS after an outage in which it lost all leases: what a host receives, and how long it takes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.fleet_size.injected import FIRST
from bench.fleet_size.probes import NONE, Traffic, traffic_of
from bench.fleet_size.rig import known_to, until, until_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.fleet_size.rig import Rig
    from tests.support.hotseat import Hotseat


@dataclass(frozen=True, slots=True)
class Return:
    hosts: int
    knows_s: float
    """From the moment when NATS is healthy until the host has heard of every other host again."""
    received: Traffic
    """By the host, until then."""
    busiest_bytes: int
    """Received in the busiest second."""


class Watch:
    """Samples the traffic of a host until it has heard of all others."""

    def __init__(self, rig: Rig, host: Hotseat, hosts: int) -> None:
        self._rig, self._host, self._hosts = rig, host, hosts
        self._began = time.monotonic()
        self._samples: list[tuple[float, Traffic]] = []

    def is_over(self) -> bool:
        self._samples.append((time.monotonic() - self._began, traffic_of(FIRST, self._rig.nats)))
        asked_at = time.monotonic()
        seen = known_to(self._host)
        return len(seen) == self._hosts and max(seen) < asked_at - self._began

    def result(self) -> Return:
        at, received = self._samples[-1]
        return Return(self._hosts, at, received, busiest(self._samples))


def busiest(samples: Sequence[tuple[float, Traffic]]) -> int:
    """Bytes received in a second, or in slightly more because of the pauses between samples."""
    most = 0
    for at, traffic in samples:
        earlier = [before for then, before in samples if then <= at - 1.0]
        most = max(most, traffic.bytes_in - (earlier[-1] if earlier else NONE).bytes_in)
    return most


def outage(rig: Rig, host: Hotseat, hosts: int) -> Return:
    rig.inject(hosts - 1)
    until_known(host, hosts)
    for server in rig.nats:
        server.kill()
    until(lambda: not known_to(host))
    for server in rig.nats:
        server.start()
    for server in rig.nats:
        asyncio.run(server.until_healthy())
    watch = Watch(rig, host, hosts)
    until(watch.is_over)
    return watch.result()
