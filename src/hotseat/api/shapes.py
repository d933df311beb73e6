"""The shapes of answers, as the interface contract names them and as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from hotseat.scheduling.lifecycle import Phase

# The contract's own


SHARE_READ = "The part of its files, from 0 to 1, that a loading server has read; null where nobody can tell."


class LoadStatus(BaseModel):
    value: Literal["loaded", "loading", "unloaded"]
    progress: Annotated[float | None, Field(description=SHARE_READ)] = None


class Abilities(BaseModel):
    """What the configuration says a model can do."""

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


class Failure(BaseModel):
    """A management call that failed; `message` and `error` are the same sentence."""

    status: Literal["error"] = "error"
    message: str
    error: str


class Error(BaseModel):
    error: str


# Ours, under /hotseat/


class Ticket(BaseModel):
    """A request that waits."""

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


class Models(BaseModel):
    models: list[Model]


class Cause(BaseModel):
    at: Annotated[float, Field(description="Unix time.")]
    because: str


class JournalEntry(BaseModel):
    """One thing that happened and what was decided on it."""

    n: int
    at: Annotated[float, Field(description="Unix time.")]
    event: dict[str, Any]
    commands: list[dict[str, Any]]


class ModelStory(Model):
    """A model, who waits for it, and what happened to it last."""

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
