"""Small value types that all packages share. No logic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NewType, TypeAlias

from msgspec import Struct

ModelName = NewType("ModelName", str)
"""The configured name of a model, never an alias."""

TicketId = NewType("TicketId", int)
"""One request of one client, from its arrival to its last byte."""

LaunchId = NewType("LaunchId", int)
"""One process of one model; each start gets a new one."""

ClientId = NewType("ClientId", str)
"""A key, a header or an address. Only compared, never interpreted."""

HostName = NewType("HostName", str)
DeviceName = NewType("DeviceName", str)

Instant = float
"""Seconds on a monotonic clock, always passed in."""

Seconds = float
Bytes = int

CENTURY_S: Seconds = 100 * 365.25 * 86_400.0
"""Clocks cannot be set to much later times; a longer duration means for ever."""

LOCAL_HOST = HostName("local")
DEFAULT_PREFIX = "hotseat"
"""Of a fleet: what the names of its NATS buckets begin with."""
RAM = DeviceName("ram")


class Place(NamedTuple):
    """A device of a host. A NamedTuple because it is a key in every sum of memory and hashes fastest."""

    host: HostName
    device: DeviceName

    def __str__(self) -> str:
        return self.device if self.host == LOCAL_HOST else f"{self.host}/{self.device}"


HOST_MEMORY = Place(LOCAL_HOST, RAM)
ANY_GPU = Place(LOCAL_HOST, DeviceName("gpus"))
"""Memory on the cards that a model will get, all together: which ones is decided when it starts."""

MeasuredMemory: TypeAlias = Mapping[ModelName, Mapping[Place, Bytes]]
"""What earlier processes of each model took."""


class Address(NamedTuple):
    """Where an upstream listens. `prefix` is prepended to every path; `unix_path` overrides host and port."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""
    unix_path: str | None = None

    @property
    def authority(self) -> str:
        """For the Host header: IPv6 addresses are bracketed."""
        if self.unix_path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        if self.unix_path:
            return f"unix:{self.unix_path}"
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


class Upstream(Struct, frozen=True):
    """The running server of a model. `pid` is the server's own process; None: not a local process."""

    address: Address
    pid: int | None = None
    listener: int | None = None
    """The process that listens, behind a script not that one: it is never signalled; None: unknown."""
    api_key: str = ""
    """The key that hotseat made for this server and sends with every request; empty: clients send their own."""

    def __repr__(self) -> str:
        return f"Upstream({self.address}, {self.pid}, {self.listener})"  # never with the key

    @property
    def shown_pid(self) -> int | None:
        return self.listener or self.pid


class LogLine(NamedTuple):
    """A line of hotseat's own log, or of a model server's output."""

    at: float
    """Wall-clock time."""
    text: str
    model: ModelName | None = None
    """None: hotseat itself wrote it."""
    level: str | None = None
    """`debug`, `info`, `warning`, `error` or `critical`; None: not known, as for every line of a model server."""
    host: HostName | None = None
    """The host of the fleet that wrote it; None: this one, or nobody asked for several."""
