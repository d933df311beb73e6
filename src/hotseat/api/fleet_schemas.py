"""Schemas of responses about the fleet."""

from __future__ import annotations

from typing import Annotated, Literal

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
    phase_s: Annotated[float | None, Field(description="Seconds since its phase began; null: unknown.")]


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
        HostState, Field(description="`unreachable`: it did not answer, so it gets no requests for a while.")
    ]
    problem: Annotated[str, Field(description="Why it is unreachable; empty: it is not, or the reason is unknown.")]
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
    certificate_ends: Annotated[
        float | None, Field(description="When its TLS certificate ends, in Unix time; null: unknown, or no TLS.")
    ]
    clock_ahead_s: Annotated[
        float | None, Field(description="Seconds that its clock is ahead of this host's; null: unknown.")
    ]


class FleetClaim(Schema):
    """A host chosen to load a model, before the load starts."""

    model: str
    host: str
    by: str
    reason: str


class BrokenPath(Schema):
    host: Annotated[str, Field(description="The host whose requests do not reach the other one.")]
    to: Annotated[str, Field(description="The other host.")]
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
    broken_paths: Annotated[
        list[BrokenPath], Field(description="What each host last said about the others; at most 16 of each host.")
    ]
    absent: Annotated[list[AbsentHost], Field(description="Absent hosts that have pending orders.")]


class OtherHost(Schema):
    """A model on another host of the fleet."""

    host: str
    phase: str
    why: Annotated[
        str, Field(description="Reason given by that host, or why it did not answer; empty: none was given.")
    ]


class FleetRequest(Schema):
    """A request in progress, wherever it is served. One that was forwarded is listed once."""

    host: Annotated[str, Field(description="The host that serves it, or where it waits.")]
    asked: Annotated[str, Field(description="The host that its client asked.")]
    ticket: Annotated[
        int | None, Field(description="Its number at the host that was asked, to cancel it there; null: unknown.")
    ]
    id: str
    model: str
    client: str
    method: str
    path: str
    state: Annotated[Literal["waiting", "sent", "answering"], Field(description="At the host that serves it.")]
    waited_s: float
    first_byte_s: float | None
    seconds: Annotated[float, Field(description="Since its arrival.")]


OF_EACH_HOST = "The oldest first; of each other host at most 100,000 divided by their number, but 100 in any case."


class FleetRequests(Schema):
    in_progress: Annotated[list[FleetRequest], Field(description=OF_EACH_HOST)]
    silent: Annotated[
        list[str],
        Field(
            description="Hosts that did not answer in time, or with more than 2 MiB; what they alone know is missing."
        ),
    ]
    problems: Annotated[dict[str, str], Field(description="Why, of each of these hosts.")]


class DefinedDifferently(Schema):
    """The keys of a model's definition that differ, with the values of both hosts. A command is a fingerprint."""

    definition: Annotated[str, Field(description="On the host that this is about.")]
    compared_with: Annotated[str, Field(description="Another host.")]
    other_definition: Annotated[str, Field(description="On that other host.")]


class ModelOnHost(Schema):
    host: str
    is_configured: Annotated[bool, Field(description="Does the host's configuration have the model?")]
    phase: Annotated[str | None, Field(description="null: the host does not have the model.")]
    why: Annotated[
        str, Field(description="Reason given by that host, or why it did not answer; empty: none was given.")
    ]
    last_error: Annotated[str, Field(description="Of its last failure there; empty: none.")]
    has_answered: Annotated[bool, Field(description="Did the host answer in time?")]
    obstacle: Annotated[
        str | None, Field(description="What prevents the host from loading or serving the model; null: nothing.")
    ]
    remedy: Annotated[str | None, Field(description="What to do about the obstacle.")]
    differs: Annotated[DefinedDifferently | None, Field(description="null: the definitions are the same.")]


class FleetModel(Schema):
    model: str
    hosts: Annotated[list[ModelOnHost], Field(description="All hosts, sorted by name.")]
