"""Response schemas, as in the interface contract and in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from hotseat.api.fleet_schemas import Elsewhere, Membership
from hotseat.fleet.view import Standing
from hotseat.scheduling.lifecycle import Phase

# The contract's own


SHARE_READ = "The part of its files, from 0 to 1, that a loading server has read; null where nobody can tell."


class LoadStatus(BaseModel):
    value: Literal["loaded", "loading", "unloaded"]
    progress: Annotated[float | None, Field(description=SHARE_READ)] = None


class Abilities(BaseModel):
    """What a model can do according to the configuration."""

    input: list[str]
    output: list[str]
    vision: bool
    audio_transcriptions: bool
    audio_speech: bool
    image_generation: bool
    function_calling: bool
    reranker: bool


class ModelEntry(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "hotseat"
    status: Annotated[LoadStatus | None, Field(description="Missing for a model that a peer has.")] = None
    name: str | None = None
    description: str | None = None
    context_length: int | None = None
    capabilities: Abilities | None = None
    meta: Annotated[dict[str, Any], Field(description="What kind of name it is, and what the configuration adds.")]


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelEntry]


class RunningModel(BaseModel):
    status: Literal["running"] = "running"
    pid: Annotated[int | None, Field(description="The model server's process; null where it runs elsewhere.")]


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    models: dict[str, RunningModel]


class Running(BaseModel):
    running: list[str]


class Result(BaseModel):
    status: Literal["ok"] = "ok"
    message: str


class Ready(Result):
    fleet: Annotated[
        Standing | None,
        Field(description="Missing where this host is alone. `apart` is no reason to send it nothing."),
    ] = None


class Failure(BaseModel):
    """A management call that failed; `message` and `error` have the same text."""

    status: Literal["error"] = "error"
    message: str
    error: str


class Error(BaseModel):
    error: str


# Our own, under /hotseat/


class Ticket(BaseModel):
    """A waiting request."""

    ticket: int
    model: str
    client: str
    waited_s: float
    why: str
    expected_s: Annotated[float | None, Field(description="In how many seconds it will probably be served.")]
    at_most_s: Annotated[
        float | None,
        Field(description="In how many seconds at the latest, if loads and requests take no longer than they did."),
    ]


class Queue(BaseModel):
    waiting: list[Ticket]
    oldest_s: float


class Footprint(BaseModel):
    """Memory use of a model per device, in bytes."""

    counts_as: Annotated[dict[str, int] | None, Field(description="What is set aside for it; null: a whole device.")]
    source: Annotated[Literal["declared", "measured", "estimated", "unknown"], Field(description="Who says so.")]
    estimated: Annotated[
        dict[str, int] | None,
        Field(description="What its files and its command line let expect; null: they do not say."),
    ]
    measured: Annotated[dict[str, int] | None, Field(description="What its present process was seen to take.")]


class Device(BaseModel):
    """A device with a budget, in bytes."""

    device: str
    budget: int
    available: Annotated[int, Field(description="What models may take now; less than the budget where others use it.")]
    taken: Annotated[int, Field(description="What the models that are there count as.")]


class Model(BaseModel):
    model: str
    aliases: list[str]
    name: str
    description: str
    unlisted: bool
    phase: Phase
    phase_s: Annotated[float | None, Field(description="How long it has been in this phase; null: from the start.")]
    pid: int | None
    address: str | None
    port: int | None
    in_flight: int
    waiting: int
    why: Annotated[str, Field(description="Why it is in this phase, or why those who wait for it wait.")]
    failures: int
    last_error: str
    ttl_left_s: Annotated[float | None, Field(description="Until it is unloaded, if nobody uses it.")]
    load_s: Annotated[float | None, Field(description="How long it takes to load, as measured.")]
    progress: Annotated[float | None, Field(description=SHARE_READ)]
    tokens_per_s: Annotated[float | None, Field(description="Generated, of its last answer that said so.")]
    level: Annotated[str | None, Field(description="How it sleeps, or will when it is drained; null: it does not.")]
    pinned: Annotated[bool, Field(description="Never evicted.")]
    memory: Annotated[dict[str, int] | None, Field(description="Configured bytes per device; null: it says nothing.")]
    footprint: Annotated[Footprint | None, Field(description="Null where no device has a budget.")]


class Models(BaseModel):
    at: Annotated[float, Field(description="Unix time of this answer, by hotseat's own clock.")]
    started_at: Annotated[float, Field(description="When hotseat was started: numbers count from there.")]
    models: list[Model]
    budgets: Annotated[
        dict[str, int], Field(description="Bytes that models may take per device; empty: no `devices` are configured.")
    ]
    devices: list[Device]
    making_way: Annotated[str, Field(description="For whom models have to be gone; empty: nobody.")]
    fleet: Annotated[Membership | None, Field(description="How this host stands in its fleet; null: it is alone.")]


REQUEST_ID = "The client's `X-Request-Id`, or the one that hotseat made; the answer has it too."


class RequestUnderWay(BaseModel):
    ticket: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    model: str
    client: str
    method: str
    path: str
    state: Annotated[Literal["waiting", "sent", "answering"], Field(description="How far it is.")]
    waited_s: float
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: nothing was answered yet.")]
    seconds: Annotated[float, Field(description="Since its arrival.")]


class FinishedRequest(BaseModel):
    n: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    at: Annotated[float, Field(description="When it ended; Unix time.")]
    model: str
    client: str
    method: str
    path: str
    status: Annotated[int, Field(description="499: the client hung up. 0: no answer began.")]
    waited_s: Annotated[float, Field(description="For its turn: loads, swaps and slots.")]
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: nothing was answered.")]
    seconds: Annotated[float, Field(description="From its arrival to its last byte.")]
    prompt_tokens: Annotated[int | None, Field(description="As the answer says; null: it does not.")]
    completion_tokens: Annotated[int | None, Field(description="As the answer says; null: it does not.")]
    tokens_per_s: Annotated[
        float | None,
        Field(description="Generated: the server's own figure, else over the time that it had it."),
    ]


class History(BaseModel):
    kept_s: Annotated[float, Field(description="For how long requests are kept on disk; 0: these are from memory.")]
    requests: Annotated[list[FinishedRequest], Field(description="Oldest first.")]


class Requests(BaseModel):
    at: Annotated[float, Field(description="Unix time of this answer, by hotseat's own clock.")]
    under_way: list[RequestUnderWay]
    finished: Annotated[list[FinishedRequest], Field(description="The last 1000, oldest first.")]


class ConfigReport(BaseModel):
    resolved: Annotated[dict[str, Any], Field(description="Macros expanded, defaults filled in, secrets left out.")]
    complaints: Annotated[list[str], Field(description="Warnings and notes about the configuration in force.")]
    refused: Annotated[list[str], Field(description="Why the last reload changed nothing; empty: it was applied.")]


class Key(BaseModel):
    name: Annotated[str, Field(description="Of its holder; where none is configured, the digest's first digits.")]
    role: Literal["inference", "operate", "admin"]
    models: Annotated[list[str], Field(description="What it may ask for; empty: everything.")]
    requests_per_minute: Annotated[int | None, Field(description="null: no limit.")]
    concurrency_limit: Annotated[int | None, Field(description="null: no limit.")]
    requests: Annotated[int, Field(description="To models, since hotseat was started.")]
    refused: Annotated[int, Field(description="Beyond its limits.")]
    in_flight: Annotated[int, Field(description="Waiting or being served.")]
    device_seconds: Annotated[
        float, Field(description="For how long it had devices to itself; who is served together shares the time.")
    ]


class KeyList(BaseModel):
    keys: list[Key]


class Cause(BaseModel):
    at: Annotated[float, Field(description="Unix time.")]
    because: str


class JournalEntry(BaseModel):
    """An event and the commands it caused."""

    n: int
    at: Annotated[float, Field(description="Unix time.")]
    event: dict[str, Any]
    commands: list[dict[str, Any]]


class ModelStory(Model):
    """A model, the requests that wait for it, and its recent history."""

    host: Annotated[str | None, Field(description="Of the fleet, whose story this is; null: this one is alone.")] = None
    elsewhere: Annotated[list[Elsewhere], Field(description="On which other hosts the model is.")] = []
    line: list[Ticket]
    last_start: Cause | None
    last_stop: Cause | None
    history: list[JournalEntry]


class ProfileEntry(BaseModel):
    name: str
    description: str
    pins: Annotated[dict[str, str], Field(description="Name to name; an empty one is switched off.")]


class Profiles(BaseModel):
    active: str | None
    profiles: list[ProfileEntry]


class Reloaded(Result):
    added: list[str]
    changed: list[str]
    removed: list[str]


class ReloadFailure(Failure):
    complaints: list[str]
