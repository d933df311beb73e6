"""Response schemas of readiness, of the queue and of a reload."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hotseat.api.schema_base import Result, Schema
from hotseat.fleet.view import FleetConnection


class Ready(Result):
    fleet: Annotated[
        FleetConnection | None,
        Field(description="Missing if this host is not in a fleet. A `disconnected` host still serves requests."),
    ] = None


class Ticket(Schema):
    """A waiting request."""

    ticket: int
    model: str
    client: str
    waited_s: float
    why: str
    expected_s: Annotated[float | None, Field(description="Estimated seconds until it is served; null: not known.")]
    at_most_s: Annotated[
        float | None,
        Field(description="Upper bound in seconds, if loads and requests take no longer than before."),
    ]


class Queue(Schema):
    waiting: list[Ticket]
    oldest_s: float
