"""PURE: the records that hosts exchange, and their encoding.

The writer of a record can always recreate it. Fields are only ever added, with a default, so that hosts of two versions
understand each other during an upgrade.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hotseat.identifiers import Bytes, DeviceName, HostName, ModelName, Seconds  # noqa: TC001 - msgspec reads them


class Residence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model on a host: loading, ready, asleep or leaving.

    A cold model is listed only while requests wait for it there.
    """

    model: ModelName
    phase: str
    memory: dict[DeviceName, Bytes] = {}
    """On the cards that it has."""
    in_flight: int = 0
    waiting: int = 0
    slots: int = 0
    """Concurrent requests; 0: unknown."""
    idle_s: Seconds = 0.0
    """Since its last request, as of the record."""
    load_s: Seconds = 0.0
    """Its load time; 0: never measured."""
    oldest_wait_s: Seconds = 0.0
    pinned: bool = False
    phase_s: Seconds | None = None
    """Since its phase began, as of the record; None: it never ran."""


class DeviceBudget(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device with a budget."""

    budget: Bytes
    free: Bytes


class HostRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a host publishes about itself."""

    name: HostName
    address: str
    """Where others reach it: `http://host:port`."""
    boot: str
    """Changes with each start, to tell a restarted host from its previous run."""
    catalog: str
    """The digest of its catalog."""
    labels: dict[str, str] = {}
    devices: dict[DeviceName, DeviceBudget] = {}
    """Empty: its models take turns, one at a time or as its groups allow."""
    residents: list[Residence] = []
    is_leaving: bool = False
    version: str = ""
    token_hash: str = ""
    """Shows which machine it is (`name_owner`)."""
    missing_files: dict[ModelName, str] = {}
    """A file that its disk does not have, of each of its models that lacks one."""
    released: list[ModelName] = []
    """Resident models for which it takes no more requests while it is drained."""
    unreachable: dict[HostName, str] = {}
    """Other hosts that it cannot reach, and why: only some if there are many, so that the record stays small."""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model that may run: what others must know to choose a host for it."""

    memory: dict[DeviceName, Bytes] = {}
    """Empty: unknown, so it takes a whole device."""
    is_estimate: bool = False
    """The configuration does not state the memory: it depends on the host's devices."""
    gpus: int = 0
    """How many cards its host chooses for it; 0: as few as it fits on."""
    among: list[DeviceName] = []
    """The cards that it may get; empty: all of its host."""
    load_s: Seconds = 0.0
    labels: dict[str, str] = {}
    """Labels that a host needs to run it."""
    aliases: list[str] = []
    least: int = 0
    most: int = 1
    """Replicas in the whole fleet."""
    recipe: str = ""
    """Fingerprint of the command and of how its server is reached."""


class CatalogRecord(msgspec.Struct, frozen=True):
    offers: dict[ModelName, Offer]


STOPS = -1
"""Instead of the number of a replica: nobody else may stop one of the model while this claim is there."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision that this host loads this model, or keeps it while another one stops it."""

    model: ModelName
    host: HostName
    by: HostName
    reason: str
    replica: int = 0
    unasked: bool = False
    """No request goes there: the host loads the model because of the claim."""
    id: str = ""
    """Of this claim alone: numbers of records begin anew when the store loses its state."""


class HostOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator's orders for a host."""

    cordoned: bool = False
    """No new models are placed there."""
    drained: bool = False
    """Also, its models leave: those in use as soon as another host has them."""
    by: str = ""
    given_ms: int = 0
    """When it was given or revoked: milliseconds since 1970, and later than the one before; 0: unknown."""

    def is_older_than(self, other: HostOrder) -> bool:
        return 0 < self.given_ms < other.given_ms

    @property
    def is_given(self) -> bool:
        """False: there is none, or it was revoked."""
        return self.cordoned or self.drained


Record = TypeVar("Record", bound=msgspec.Struct)


def encoded(record: msgspec.Struct) -> bytes:
    return msgspec.json.encode(record)


def decoded(data: bytes, kind: type[Record]) -> Record:
    """ValueError for anything else: another version or another program may have written it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
