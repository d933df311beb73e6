"""A host in a fleet of some size while nothing happens but renewals: traffic, processor time and memory."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.fleet_size.injected import FIRST
from bench.fleet_size.probes import Traffic, processor_s, resident_mb, routed_bytes, traffic_of
from bench.fleet_size.receiver import PARTS
from bench.fleet_size.rig import Program, until, until_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.fleet_size.rig import Rig
    from tests.support.hotseat import Hotseat

US = 1e6


@dataclass(frozen=True, slots=True)
class Count:
    """Of a receiver: messages so far, and its processor time so far."""

    messages: int
    processor_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    host_s: float
    nats_s: float
    traffic: Traffic
    routed: int
    parts: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class Window:
    """Two samples, some time apart."""

    hosts: int
    before: Sample
    after: Sample
    resident_mb: float

    @property
    def seconds(self) -> float:
        return self.after.at - self.before.at

    @property
    def traffic(self) -> Traffic:
        return self.after.traffic.since(self.before.traffic)

    @property
    def host_share(self) -> float:
        """Of one processor."""
        return (self.after.host_s - self.before.host_s) / self.seconds

    @property
    def nats_share(self) -> float:
        """Of one processor, all servers together."""
        return (self.after.nats_s - self.before.nats_s) / self.seconds

    @property
    def routed_per_s(self) -> float:
        return (self.after.routed - self.before.routed) / self.seconds

    def part_share(self, part: str) -> float:
        """Of one processor, by the receiver that does this part."""
        return (self.after.parts[part].processor_s - self.before.parts[part].processor_s) / self.seconds

    @property
    def records_per_s(self) -> float:
        """As a receiver counted them."""
        return (self.after.parts[PARTS[0]].messages - self.before.parts[PARTS[0]].messages) / self.seconds


class Observer:
    def __init__(self, rig: Rig, host: Hotseat) -> None:
        self._rig, self._host = rig, host
        self._receivers: dict[str, Program] = {part: rig.program("receiver", part, *rig.urls) for part in PARTS}
        until(lambda: all(self._count(receiver).messages for receiver in self._receivers.values()))

    def window(self, hosts: int, seconds: float) -> Window:
        """Once the host knows that many: what happens in so many seconds."""
        self._rig.inject(hosts - 1)
        until_known(self._host, hosts)
        before = self._sample()
        time.sleep(seconds)
        return Window(hosts, before, self._sample(), resident_mb(self._host.process.pid))

    def _sample(self) -> Sample:
        parts = {part: self._count(receiver) for part, receiver in self._receivers.items()}
        nats, pid = self._rig.nats, self._host.process.pid
        nats_s = sum(processor_s(server.pid) for server in nats)
        return Sample(time.monotonic(), processor_s(pid), nats_s, traffic_of(FIRST, nats), routed_bytes(nats), parts)

    def _count(self, receiver: Program) -> Count:
        messages, processor = receiver.ask().split()
        return Count(int(messages), float(processor))


def steady(observer: Observer, sizes: Sequence[int], rounds: int, seconds: float) -> list[Window]:
    """Alone and at each size in turn, several times."""
    return [observer.window(size, seconds) for _ in range(rounds) for size in (1, *sizes)]


@dataclass(frozen=True, slots=True)
class FanOut:
    """What NATS does for many listeners."""

    listeners: int
    messages_per_s: float
    nats_share: float
    """Of one processor, beyond that without the listeners."""

    @property
    def us_per_message(self) -> float:
        return self.nats_share / self.messages_per_s * US


def fan_out(rig: Rig, observer: Observer, hosts: int, listeners: int, seconds: float) -> FanOut:
    """The servers without and with many more listeners, one window after the other."""
    without = observer.window(hosts, seconds)
    each = listeners // len(rig.nats)
    with ExitStack() as stack:
        for server in rig.nats:
            stack.enter_context(Program("crowd", str(each), f"127.0.0.1:{server.port}"))
        until(lambda: all(server.monitoring("varz")["connections"] >= each for server in rig.nats))
        within = observer.window(hosts, seconds)
    sent = each * len(rig.nats) * within.records_per_s
    return FanOut(each * len(rig.nats), sent, within.nats_share - without.nats_share)
