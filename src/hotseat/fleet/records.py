"""PURE: what hosts tell each other, and how it is written down.

Each record can be made anew by whoever wrote it. Fields are only ever added, with a default, so that hosts of two
versions understand each other while one replaces the other.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hotseat.identifiers import Bytes, DeviceName, HostName, ModelName, Seconds  # noqa: TC001 - msgspec reads them


class Residence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model that is on a host: loading, ready, asleep or on its way out.

    What is cold is mentioned only while somebody waits for it there.
    """

    model: ModelName
    phase: str
    memory: dict[DeviceName, Bytes] = {}
    in_flight: int = 0
    waiting: int = 0
    slots: int = 0
    """Requests that it serves at a time; 0: unknown."""
    idle_s: Seconds = 0.0
    """Since its last request, as of the record."""
    load_s: Seconds = 0.0
    """What it takes to bring it back; 0: never seen."""
    oldest_wait_s: Seconds = 0.0
    pinned: bool = False


class Room(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device that has a budget."""

    budget: Bytes
    free: Bytes


class HostRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a host says of itself."""

    name: HostName
    address: str
    """Where others reach it: `http://host:port`."""
    boot: str
    """Another one after each start: a host that came back is not the one that was there."""
    catalog: str
    """The digest of what it may run."""
    labels: dict[str, str] = {}
    devices: dict[DeviceName, Room] = {}
    """None: its models take turns, one at a time or as its groups say."""
    residents: list[Residence] = []
    is_leaving: bool = False
    version: str = ""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model that may run: what others must know to choose a host for it."""

    memory: dict[DeviceName, Bytes] = {}
    """Empty: unknown, so it takes a whole device."""
    load_s: Seconds = 0.0
    labels: dict[str, str] = {}
    """What a host must be labelled with to run it."""
    aliases: list[str] = []
    least: int = 0
    most: int = 1
    """Replicas in the whole fleet."""


class CatalogRecord(msgspec.Struct, frozen=True):
    offers: dict[ModelName, Offer]


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody decided that this host loads this model."""

    model: ModelName
    host: HostName
    by: HostName
    because: str
    replica: int = 0
    unasked: bool = False
    """No request brings it there: the host loads it on account of this."""


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator wants of a host."""

    cordoned: bool = False
    """Nothing new is placed there."""
    drained: bool = False
    """And what is there goes elsewhere."""
    by: str = ""


Record = TypeVar("Record", bound=msgspec.Struct)


def encoded(record: msgspec.Struct) -> bytes:
    return msgspec.json.encode(record)


def decoded(data: bytes, kind: type[Record]) -> Record:
    """Raises ValueError for what is no such record: others may run another version, or another program."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
