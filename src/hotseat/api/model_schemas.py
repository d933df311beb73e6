"""Response schemas of models: state, memory, conversations, and what is set at run time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from hotseat.api.routes.events import Cause, JournalEntry
from hotseat.api.routes.fleet import Membership
from hotseat.api.schema_base import Schema
from hotseat.api.status_schemas import Ticket
from hotseat.catalog.spec import MOST_TTL_S
from hotseat.scheduling.lifecycle import Phase

SHARE_READ = "Share of its files, from 0 to 1, that a loading server has read; null: unknown."


class Footprint(Schema):
    """Memory use of a model per device, in bytes."""

    reserved: Annotated[dict[str, int] | None, Field(description="Reserved bytes per device; null: a whole device.")]
    source: Annotated[
        Literal["declared", "measured", "estimated", "unknown"], Field(description="Source of the figure.")
    ]
    estimated: Annotated[
        dict[str, int] | None,
        Field(description="Estimate from its files and command line; null: unknown."),
    ]
    measured: Annotated[dict[str, int] | None, Field(description="Measured for the current process.")]


class Device(Schema):
    """A device with a budget, in bytes."""

    device: str
    budget: int
    available: Annotated[
        int, Field(description="Bytes available to models now; less than the budget if others use it.")
    ]
    reserved: Annotated[int, Field(description="Bytes reserved for the running models.")]


class Overrides(Schema):
    """What is set for a model at run time instead of its configuration. It is kept across restarts."""

    # Of a request's body: pydantic warns if the schema of a body is built later.
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=False)

    pinned: Annotated[bool | None, Field(description="Null: as configured.")] = None
    ttl: Annotated[
        float | None,
        Field(ge=0, le=MOST_TTL_S, allow_inf_nan=False, description="Seconds; 0: never. Null: as configured."),
    ] = None


class Configured(Schema):
    pinned: bool
    ttl: Annotated[float, Field(description="Seconds; 0: never.")]


class Conversations(Schema):
    """What a model's server has computed of conversations, saved when it stops and restored when it starts."""

    kept: Annotated[int, Field(description="Conversations on disk.")]
    bytes: Annotated[int, Field(description="Their size.")]
    saved: int
    restored: int
    reused: Annotated[int, Field(description="Restored ones that a request has continued.")]
    gained_s: Annotated[float, Field(description="Seconds in which they would have been computed again.")]
    problem: Annotated[str, Field(description="Why they are not saved any more; empty: they are.")]


class Model(Schema):
    model: str
    aliases: list[str]
    name: str
    description: str
    unlisted: bool
    phase: Phase
    phase_s: Annotated[float | None, Field(description="Seconds in this phase; null: since the start.")]
    pid: int | None
    address: str | None
    port: int | None
    in_flight: int
    waiting: int
    why: Annotated[str, Field(description="Why it is in this phase, or why its requests wait.")]
    failures: Annotated[int, Field(description="Failed starts and crashes in a row.")]
    retry_in_s: Annotated[float | None, Field(description="Seconds until its backoff ends; null: no backoff.")]
    last_error: str
    ttl_left_s: Annotated[float | None, Field(description="Seconds until it is unloaded if it stays idle.")]
    load_s: Annotated[float | None, Field(description="Measured load time.")]
    progress: Annotated[float | None, Field(description=SHARE_READ)]
    tokens_per_s: Annotated[
        float | None, Field(description="Generated tokens per second of the last response with usage.")
    ]
    context: Annotated[
        int | None,
        Field(description="Tokens of one request: as its last server reported, else as declared; null: unknown."),
    ] = None
    level: Annotated[str | None, Field(description="Sleep level, current or after draining; null: none.")]
    pinned: Annotated[bool, Field(description="Never evicted.")]
    ttl: Annotated[float, Field(description="Seconds unused until it is unloaded; 0: never.")] = 0.0
    overrides: Annotated[
        Overrides | None, Field(description="Set at run time; `pinned` and `ttl` include it. Null: nothing is set.")
    ] = None
    configured: Annotated[
        Configured | None, Field(description="What the configuration says, if something is set at run time.")
    ] = None
    memory: Annotated[dict[str, int] | None, Field(description="Configured bytes per device; null: not configured.")]
    footprint: Annotated[Footprint | None, Field(description="Null if no device has a budget.")]
    adopted: Annotated[bool, Field(description="Whether an earlier process of hotseat has started its current server.")]
    gpus: Annotated[
        list[str],
        Field(description="GPUs chosen for its current server; `gpus` in `footprint` is their memory together."),
    ]
    conversations: Annotated[
        Conversations | None, Field(description="Null if its conversations are not kept across stops.")
    ] = None
    label: Annotated[
        str | None,
        Field(description="Its server's own web pages are at http://LABEL.localhost:PORT/. Null: it is being removed."),
    ] = None


class OtherHost(Schema):
    """A model on another host of the fleet."""

    host: str
    phase: str
    why: Annotated[
        str, Field(description="Reason given by that host, or why it did not answer; empty: none was given.")
    ]


class ModelDetails(Model):
    """A model, the requests that wait for it, and its recent history."""

    host: Annotated[str | None, Field(description="Host that this information is about; null: not in a fleet.")] = None
    other_hosts: list[OtherHost] = Field(default_factory=list, description="Other hosts that have the model.")
    queue: list[Ticket]
    last_start: Cause | None
    last_stop: Cause | None
    history: list[JournalEntry]


class Models(Schema):
    at: Annotated[float, Field(description="Unix time of this response, by hotseat's own clock.")]
    started_at: Annotated[float, Field(description="When hotseat was started; numbers count from there.")]
    models: list[Model]
    budgets: Annotated[
        dict[str, int], Field(description="Bytes available to models per device; empty: no `devices` are configured.")
    ]
    devices: list[Device]
    yielding: Annotated[str, Field(description="Reason for a yield of memory; empty: none is active.")]
    reload_failed: Annotated[bool, Field(description="The last reload had errors; `GET /hotseat/config` has them.")]
    failing_loops: Annotated[
        list[str], Field(description="Endless work in the background that fails again and again; the log says why.")
    ]
    fleet: Annotated[Membership | None, Field(description="Connection state to the fleet; null: not in a fleet.")]
