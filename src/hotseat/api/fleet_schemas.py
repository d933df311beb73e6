"""Schemas of responses about the fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hotseat.api.schema_base import Schema
from hotseat.fleet.view import FleetConnection, HostState

CONFIG_DIGEST = (
    "Digest of the host's models as configured there, and of `fleet.secret`; equal if all of them are equal. "
    "8 hexadecimal digits."
)
CONNECTION = (
    "`disconnected`: NATS is unreachable or another host has the name of this one, "
    "so this host serves and forwards requests by its last known state."
)

DRAINED = (
    "The host gets no requests, except for models that are not ready on another host yet; "
    "its models are stopped as soon as they are idle."
)


class Membership(Schema):
    host: Annotated[str, Field(description="Name of this host.")]
    connection: Annotated[FleetConnection, Field(description=CONNECTION)]


class FleetResident(Schema):
    model: str
    phase: str
    memory: Annotated[dict[str, int], Field(description="Bytes per device; empty: unknown, or no device has a budget.")]
    in_flight: int
    waiting: int
    oldest_wait_s: float
    pinned: bool


class FleetDevice(Schema):
    device: str
    budget: int
    free: int


class FleetHost(Schema):
    """A host: its last published state, and how this host sees it."""

    host: str
    address: str
    version: str
    labels: dict[str, str]
    config_digest: Annotated[str, Field(description=CONFIG_DIGEST)]
    state: Annotated[
        HostState, Field(description="`unreachable`: it refused connections, so it gets no requests for a while.")
    ]
    last_seen_s: Annotated[float, Field(description="Seconds since its last message.")]
    cordoned: Annotated[bool, Field(description="No new models are placed on this host.")]
    drained: Annotated[bool, Field(description=DRAINED)]
    devices: Annotated[list[FleetDevice], Field(description="Devices with a budget, in bytes.")]
    residents: list[FleetResident]
    in_flight: int
    waiting: int
    missing_files: Annotated[
        dict[str, str],
        Field(description="Models that cannot be loaded there, and a file that each lacks."),
    ]


class FleetClaim(Schema):
    """A host chosen to load a model, before the load starts."""

    model: str
    host: str
    by: str
    reason: str


class AbsentHost(Schema):
    """An absent host, and the orders that wait for it."""

    host: str
    cordoned: bool
    drained: bool


class Fleet(Membership):
    problem: Annotated[str, Field(description="Why this host is disconnected; empty while it is not.")]
    hosts: Annotated[list[FleetHost], Field(description="Sorted by name, including this host.")]
    claims: list[FleetClaim]
    absent: Annotated[list[AbsentHost], Field(description="Absent hosts that have pending orders.")]


class OtherHost(Schema):
    """A model on another host of the fleet."""

    host: str
    phase: str
    why: Annotated[str, Field(description="Reason given by that host; empty: none was given.")]
