"""Schemas of responses about the fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from hotseat.fleet.view import HostStanding, Standing

STANDING = "`apart`: NATS is away, so this host serves and passes on by what it knows."


class Membership(BaseModel):
    host: Annotated[str, Field(description="What this host is called.")]
    standing: Annotated[Standing, Field(description=STANDING)]


class FleetResident(BaseModel):
    model: str
    phase: str
    memory: Annotated[dict[str, int], Field(description="Bytes per device; empty: unknown, or no device is counted.")]
    in_flight: int
    waiting: int
    oldest_wait_s: float
    pinned: bool


class FleetDevice(BaseModel):
    device: str
    budget: int
    free: int


class FleetHost(BaseModel):
    """A host: its last published state, and how this host sees it."""

    host: str
    address: str
    version: str
    labels: dict[str, str]
    standing: Annotated[
        HostStanding, Field(description="`shunned`: it refused connections, so it is left out for a while.")
    ]
    heard_s: Annotated[float, Field(description="Seconds since its last word.")]
    cordoned: Annotated[bool, Field(description="Nothing new is placed there.")]
    drained: Annotated[bool, Field(description="And what is there goes, as soon as nobody uses it.")]
    devices: Annotated[list[FleetDevice], Field(description="Those with a budget, in bytes.")]
    residents: list[FleetResident]
    in_flight: int
    waiting: int


class FleetClaim(BaseModel):
    """A host chosen to load a model, before the load starts."""

    model: str
    host: str
    by: str
    because: str


class AbsentHost(BaseModel):
    """An absent host, and the orders that wait for it."""

    host: str
    cordoned: bool
    drained: bool


class Fleet(Membership):
    hosts: Annotated[list[FleetHost], Field(description="By name, this one among them.")]
    claims: list[FleetClaim]
    absent: Annotated[list[AbsentHost], Field(description="Hosts that are not there and for which orders stand.")]


class Elsewhere(BaseModel):
    """A model on another host of the fleet."""

    host: str
    phase: str
    why: Annotated[str, Field(description="In that host's own words; empty: it did not say.")]
