"""Response schemas, as in the interface contract and in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from hotseat.api.fleet_schemas import Membership, OtherHost
from hotseat.api.schema_base import Schema
from hotseat.catalog.overrides import MOST_TTL_S
from hotseat.fleet.view import FleetConnection
from hotseat.scheduling.lifecycle import Phase

# The contract's own


SHARE_READ = "Share of its files, from 0 to 1, that a loading server has read; null: unknown."


class LoadStatus(Schema):
    value: Annotated[
        Literal["loaded", "loading", "unloaded", "unknown"], Field(description="Unknown for a model of a peer.")
    ] = "unknown"
    progress: Annotated[float | None, Field(description=SHARE_READ)] = None
    args: Annotated[list[str] | None, Field(description="The context, if known, as an option of llama-server.")] = None


class Abilities(Schema):
    """What a model can do according to the configuration."""

    input: list[str]
    output: list[str]
    vision: bool
    audio_transcriptions: bool
    audio_speech: bool
    image_generation: bool
    function_calling: bool
    reranker: bool


class ModelEntry(Schema):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "hotseat"
    status: LoadStatus = LoadStatus()
    name: str | None = None
    description: str | None = None
    context_length: int | None = None
    capabilities: Abilities | None = None
    meta: Annotated[dict[str, Any], Field(description="Type of the name, and metadata from the configuration.")]


class ModelList(Schema):
    object: Literal["list"] = "list"
    data: list[ModelEntry]


class RunningModel(Schema):
    status: Literal["running"] = "running"
    pid: Annotated[int | None, Field(description="Process id of the model server; null if it runs on another host.")]


class Health(Schema):
    status: Literal["ok"] = "ok"
    models: dict[str, RunningModel]


class Running(Schema):
    running: list[str]


class Result(Schema):
    status: Literal["ok"] = "ok"
    message: str


class RestartState(Schema):
    pid: int
    started_at: Annotated[float, Field(description="Wall-clock time.")]
    is_in_progress: bool
    attempts: Annotated[int, Field(description="Since this process started.")]
    problem: Annotated[str, Field(description="Why the last attempt failed; empty if it did not.")]


class Ready(Result):
    fleet: Annotated[
        FleetConnection | None,
        Field(description="Missing if this host is not in a fleet. A `disconnected` host still serves requests."),
    ] = None


class Failure(Schema):
    """A management call that failed; `message` and `error` have the same text."""

    status: Literal["error"] = "error"
    message: str
    error: str


class Error(Schema):
    error: str


# Our own, under /hotseat/


class Ticket(Schema):
    """A waiting request."""

    ticket: int
    model: str
    client: str
    waited_s: float
    why: str
    expected_s: Annotated[float | None, Field(description="Estimated seconds until it is served.")]
    at_most_s: Annotated[
        float | None,
        Field(description="Upper bound in seconds, if loads and requests take no longer than before."),
    ]


class Queue(Schema):
    waiting: list[Ticket]
    oldest_s: float


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


class EstimateLine(Schema):
    """A part of a model's memory."""

    what: str
    bytes: int
    kind: Literal["weights", "kv", "compute", "mmproj", "draft", "overhead"]
    where: Literal["device", "host"]
    backing: Annotated[
        Literal["anonymous", "mapped", "read once"],
        Field(description="`mapped`: pages of a file. `read once`: the same, needed only while loading."),
    ]


class Estimate(Schema):
    """As printed by `hotseat estimate --json`."""

    lines: list[EstimateLine]
    needed: Annotated[dict[str, int], Field(description="Bytes on the `device` and on the `host`.")]
    device_share: Annotated[
        float | None, Field(description="Share of each device that the server takes regardless; null: what it needs.")
    ]
    notes: Annotated[list[str], Field(description="What the estimate does not cover.")]


class Models(Schema):
    at: Annotated[float, Field(description="Unix time of this response, by hotseat's own clock.")]
    started_at: Annotated[float, Field(description="When hotseat was started; numbers count from there.")]
    models: list[Model]
    budgets: Annotated[
        dict[str, int], Field(description="Bytes available to models per device; empty: no `devices` are configured.")
    ]
    devices: list[Device]
    yielding: Annotated[str, Field(description="Reason for a yield of memory; empty: none is active.")]
    reload_failed: Annotated[bool, Field(description="The newest configuration was rejected; the previous is active.")]
    fleet: Annotated[Membership | None, Field(description="Connection state to the fleet; null: not in a fleet.")]


REQUEST_ID = "The client's `X-Request-Id`, or a generated one; also in the response."


class RequestInProgress(Schema):
    ticket: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    model: str
    client: str
    method: str
    path: str
    state: Annotated[Literal["waiting", "sent", "answering"], Field(description="State of the request.")]
    waited_s: float
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: no response yet.")]
    seconds: Annotated[float, Field(description="Since its arrival.")]
    host: Annotated[
        str | None, Field(description="The host of the fleet that it was forwarded to; null: it is served here.")
    ]
    from_host: Annotated[
        str | None, Field(description="The host of the fleet that forwarded it; null: a client sent it here.")
    ] = None


class FinishedRequest(Schema):
    n: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    at: Annotated[float, Field(description="When it ended; Unix time.")]
    model: str
    client: str
    method: str
    path: str
    status: Annotated[int, Field(description="499: the client disconnected. 0: no response was started.")]
    waited_s: Annotated[float, Field(description="Time in the queue: loads, swaps and slots.")]
    why: Annotated[str, Field(description="What it waited for; empty: it was served at once, or ended while waiting.")]
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: no response.")]
    seconds: Annotated[float, Field(description="From its arrival to its last byte.")]
    prompt_tokens: Annotated[int | None, Field(description="As reported in the response; null: not reported.")]
    cached_tokens: Annotated[
        int | None,
        Field(description="How many of the prompt's tokens the server had in its cache; null: not reported."),
    ]
    completion_tokens: Annotated[int | None, Field(description="As reported in the response; null: not reported.")]
    tokens_per_s: Annotated[
        float | None,
        Field(description="Generated tokens per second: the server's figure, else over its processing time."),
    ]


class History(Schema):
    kept_s: Annotated[float, Field(description="Days for which requests are stored on disk; 0: these are from memory.")]
    requests: Annotated[list[FinishedRequest], Field(description="Oldest first.")]


class Requests(Schema):
    at: Annotated[float, Field(description="Unix time of this response, by hotseat's own clock.")]
    in_progress: list[RequestInProgress]
    finished: Annotated[list[FinishedRequest], Field(description="The last 1000, oldest first.")]


class ConfigReport(Schema):
    resolved: Annotated[dict[str, Any], Field(description="With expanded macros and defaults, without secrets.")]
    warnings: Annotated[list[str], Field(description="Warnings and notes about the active configuration.")]
    reload_errors: Annotated[list[str], Field(description="Why the last reload failed; empty: it succeeded.")]


class Key(Schema):
    name: Annotated[str, Field(description="Configured name, or the first digits of the digest.")]
    role: Literal["inference", "operate", "admin"]
    source: Annotated[
        Literal["configuration", "created"], Field(description="In `apiKeys`, or created with `hotseat keys`.")
    ]
    models: Annotated[list[str], Field(description="Models the key may use; empty: all.")]
    requests_limit: Annotated[str | None, Field(description="As configured, such as 100/min; null: no limit.")]
    tokens_limit: Annotated[str | None, Field(description="As configured, such as 2M/day; null: no limit.")]
    concurrency_limit: Annotated[int | None, Field(description="null: no limit.")]
    priority: Literal["interactive", "batch"]
    requests: Annotated[int, Field(description="Requests to models since the start of hotseat.")]
    refused: Annotated[int, Field(description="Requests refused because of its limits.")]
    in_flight: Annotated[int, Field(description="Requests waiting or being served.")]
    device_seconds: Annotated[float, Field(description="Device time used; concurrent requests share the time.")]


class KeyList(Schema):
    keys: list[Key]


class NewKey(Schema):
    # Of a request's body: pydantic warns if the schema of a body is built later.
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=False)

    role: Literal["inference", "operate", "admin"] = "inference"
    models: Annotated[
        tuple[str, ...], Field(strict=False, max_length=1000, description="Models the key may use; empty: all.")
    ] = ()
    requests: Annotated[str | None, Field(description="Such as 100/min; null: no limit.")] = None
    tokens: Annotated[str | None, Field(description="Such as 2M/day; null: no limit.")] = None
    concurrency_limit: Annotated[int | None, Field(ge=1, description="null: no limit.")] = None
    priority: Literal["interactive", "batch"] = "interactive"
    proof: Annotated[
        str, Field(description="For the first key only: what `hotseat keys create` wrote to the state directory.")
    ] = ""


class KeySecret(Result):
    name: str
    secret: Annotated[str, Field(description="What clients send; it cannot be shown again.")]


class Cause(Schema):
    at: Annotated[float, Field(description="Unix time.")]
    reason: str


class JournalEntry(Schema):
    """An event and the commands it caused."""

    n: int
    at: Annotated[float, Field(description="Unix time.")]
    event: dict[str, Any]
    commands: list[dict[str, Any]]


class ModelDetails(Model):
    """A model, the requests that wait for it, and its recent history."""

    host: Annotated[str | None, Field(description="Host that this information is about; null: not in a fleet.")] = None
    other_hosts: list[OtherHost] = Field(default_factory=list, description="Other hosts that have the model.")
    queue: list[Ticket]
    last_start: Cause | None
    last_stop: Cause | None
    history: list[JournalEntry]


class ProfileEntry(Schema):
    name: str
    description: str
    pins: Annotated[dict[str, str], Field(description="Maps names to names; an empty target disables the name.")]


class Profiles(Schema):
    active: str | None
    profiles: list[ProfileEntry]


class Reloaded(Result):
    added: list[str]
    changed: Annotated[list[str], Field(description="Models that restart.")]
    removed: list[str]
    keys: Annotated[list[str], Field(description="Keys whose values changed, such as `models.qwen.ttl`.")]
    needs_restart: Annotated[
        list[str], Field(description="Keys, such as `fleet`, whose new values take effect after a restart.")
    ]


class ReloadFailure(Failure):
    problems: list[str]
