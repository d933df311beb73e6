"""Small value types that every room of the house shares. Nothing here does anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

ModelName = NewType("ModelName", str)
"""The configured name of a model: never an alias."""

TicketId = NewType("TicketId", int)
"""One wish of one client, from its arrival to its last byte."""

LaunchId = NewType("LaunchId", int)
"""One process life of one model; a model that is started again gets a new one."""

ClientId = NewType("ClientId", str)
"""Who asks: a key, a header or an address. Only compared, never interpreted."""

HostName = NewType("HostName", str)
DeviceName = NewType("DeviceName", str)

Instant = float
"""Seconds on a monotonic clock, always handed in."""

Seconds = float
Bytes = int

LOCAL_HOST = HostName("local")
RAM = DeviceName("ram")


class Place(NamedTuple):
    """Where memory is: a device of a host. A key of every sum of memory, so it is the kind that is hashed quickest."""

    host: HostName
    device: DeviceName

    def __str__(self) -> str:
        return self.device if self.host == LOCAL_HOST else f"{self.host}/{self.device}"


HOST_MEMORY = Place(LOCAL_HOST, RAM)


class Address(NamedTuple):
    """Where an upstream listens. `prefix` goes in front of every path; `unix_path` wins over host and port."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""
    unix_path: str | None = None

    @property
    def authority(self) -> str:
        """What the field Host says: an IPv6 address stands in brackets."""
        if self.unix_path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        if self.unix_path:
            return f"unix:{self.unix_path}"
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


@dataclass(frozen=True, slots=True)
class Upstream:
    """The running server of a model. `pid` is the server's own process, None where it runs elsewhere."""

    address: Address
    pid: int | None = None
