"""Models as llama.cpp's router describes them, and the feed of what changes: states, and the progress of loads.

The names of the fields are llama.cpp's.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from hotseat.api.disconnect import listening
from hotseat.api.routes.events import HEARTBEAT, HEARTBEAT_S
from hotseat.api.schema_base import Schema
from hotseat.dispatch.journal import BEHIND, Entry
from hotseat.scheduling.commands import ReportFailure, RestoreConversations, StartUpstream, WakeUp
from hotseat.scheduling.events import (
    ConversationsRestored,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
)
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from hotseat.activity.usage import Account
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec
    from hotseat.dispatch.journal import Gap
    from hotseat.identifiers import ModelName
    from hotseat.scheduling.view import ModelView

RouterState = Literal["unloaded", "loading", "loaded", "sleeping"]


class RouterStatus(Schema):
    value: RouterState
    args: Annotated[list[str], Field(description="Of its command line only `--ctx-size`, if it has that.")]
    preset: Annotated[str, Field(description="Always empty: hotseat has no preset files.")] = ""
    failed: Annotated[bool | None, Field(description="Its last start failed, or it exited unexpectedly.")] = None
    exit_code: int | None = None


class RouterModalities(Schema):
    input_modalities: list[str]
    output_modalities: list[str]


class RouterModel(Schema):
    id: str
    aliases: list[str]
    tags: tuple[str, ...] = ()
    object: Literal["model"] = "model"
    owned_by: str = "llamacpp"
    created: int
    status: RouterStatus
    architecture: RouterModalities
    source: str = "preset"
    can_remove: bool = False
    context_length: int | None = None
    meta: Annotated[dict[str, int] | None, Field(description="`n_ctx`, if it is known.")] = None


class RouterModels(Schema):
    data: list[RouterModel]
    object: Literal["list"] = "list"


class RouterSuccess(Schema):
    success: Literal[True] = True


class RouterProps(Schema):
    """Of the router itself. Fields that only its web page needs are empty."""

    role: Literal["router"] = "router"
    max_instances: Annotated[int, Field(description="0: only memory limits it.")] = 0
    models_autoload: bool = True
    model_alias: str = "hotseat"
    model_path: str = "none"
    default_generation_settings: dict[str, Any] = Field(default_factory=lambda: {"params": None, "n_ctx": 0})
    ui_settings: dict[str, Any] = Field(default_factory=dict)
    build_info: str
    cors_proxy_enabled: bool = False


class RouterProblem(Schema):
    code: int
    message: str
    type: str


class RouterError(Schema):
    error: RouterProblem


class NamedInBody(Schema):
    model_config = ConfigDict(defer_build=True, extra="allow", json_schema_extra={"examples": [{"model": "qwen"}]})

    model: str


FAILED = 1
"""The exit code of a server that failed; of one that was stopped it is 0."""
CONTEXT = ("-c", "--ctx-size")


def router_state(seen: ModelView | None) -> RouterState:
    """The router starts a model as soon as somebody wants it, so one that is waited for counts as loading.

    None: a cold model that no request waits for.
    """
    match seen and seen.phase:
        case Phase.READY:
            return "loaded"
        case Phase.LOADING:
            return "loading"
        case Phase.ASLEEP:
            return "sleeping"
        case _:
            return "loading" if seen and seen.waiting else "unloaded"


def router_model(deps: ApiDeps, seen: ModelView | None, spec: ModelSpec) -> RouterModel:
    context = deps.context(spec.name) or spec.capabilities.context or None
    return RouterModel(
        id=spec.name,
        aliases=list(spec.aliases),
        created=int(deps.started_at),
        status=router_status(seen, spec),
        architecture=RouterModalities(
            input_modalities=list(spec.capabilities.takes) or ["text"],
            output_modalities=list(spec.capabilities.gives) or ["text"],
        ),
        context_length=context,
        meta={"n_ctx": context} if context else None,
    )


def router_status(seen: ModelView | None, spec: ModelSpec) -> RouterStatus:
    args, state = shown_args(spec.recipe.argv), router_state(seen)
    if state == "unloaded" and seen and seen.failures:
        return RouterStatus(value=state, args=args, failed=True, exit_code=FAILED)
    return RouterStatus(value=state, args=args)


def shown_args(argv: Iterable[str]) -> list[str]:
    """Only the context, which clients look for: pages and all keys may read this, the rest has paths and secrets."""
    contexts = [value for name, value in pairwise(argv) if name in CONTEXT and value.isdecimal()]
    return ["--ctx-size", contexts[-1]] if contexts else []


PROGRESS_S = 0.5
MAKER = "make the changes of models' states"
TOLD_AT_ONCE = 16
"""Feeds, in one turn of the event loop."""
STAGE = "text_model"
"""What the router calls the loading of a model's main file."""


class State(NamedTuple):
    model: ModelName
    value: RouterState
    has_failed: bool = False


class Change(NamedTuple):
    model: ModelName
    text: str


async def state_feed(changes: StateChanges, caller: Account | None) -> AsyncGenerator[str, None]:
    async with listening([changes.follow(caller)], HEARTBEAT_S) as texts:
        yield HEARTBEAT  # a client sees at once that the feed is open
        async for text in texts:
            yield HEARTBEAT if text is None else text


class StateChanges:
    """The changes of all models, made once for all feeds: by a task that runs while there are any."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._followers: list[asyncio.Queue[Change | None]] = []
        self._maker: asyncio.Task[None] | None = None

    async def follow(self, caller: Account | None) -> AsyncGenerator[str, None]:
        """The changes of the models that the caller may use. They end for one that is far behind: it connects again."""
        queue: asyncio.Queue[Change | None] = asyncio.Queue(maxsize=BEHIND)
        self._followers.append(queue)
        if self._maker is None:
            self._maker = self._deps.tasks.start(forever(self._publish, MAKER), MAKER)
        try:
            while (change := await queue.get()) is not None:
                if caller is None or caller.may_use(change.model):
                    yield change.text
        finally:
            self._followers.remove(queue)
            if not self._followers:
                self._maker.cancel()
                self._maker = None

    async def _publish(self) -> None:
        async with listening([self._deps.journal.follow()], PROGRESS_S) as items:
            states = States(self._deps)
            async for item in items:
                for message in [*states.news(item)]:
                    await self._tell(Change(message["model"], f"data: {json.dumps(message)}\n\n"))

    async def _tell(self, change: Change) -> None:
        """Some feeds at a time: each that wakes up takes time of the event loop."""
        for number, queue in enumerate([*self._followers], start=1):
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(change)
            if number % TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)


class States:
    """The last reported state of each model, and the progress of those that load."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._states: dict[ModelName, RouterState] = {}
        self._states = {state.model: state.value for state in self._present()}
        self._shares: dict[ModelName, float] = {}

    def news(self, item: Entry | Gap | None) -> Iterator[dict[str, Any]]:
        """Of a journal entry what it says, because that may be over; then the present state of all models."""
        for state in [*(passed(item) if isinstance(item, Entry) else ()), *self._present()]:
            if state.value != self._known(state.model):
                self._states[state.model] = state.value
                yield self._change(state)
        yield from self._progress()

    def _known(self, model: ModelName) -> RouterState:
        return self._states.get(model, "unloaded")

    def _present(self) -> Iterator[State]:
        """Without models that are cold: those are unloaded."""
        seen = {model.name: model for model in self._deps.dispatcher.views.current().models}
        for name, model in seen.items():
            yield State(name, router_state(model), model.failures > 0)
        yield from [State(name, "unloaded") for name in self._states if name not in seen]

    def _change(self, state: State) -> dict[str, Any]:
        match state.value:
            case "loading":
                return event("model_status", state.model, {"status": "loading"})
            case "loaded":
                return event("status_change", state.model, {"status": "loaded", "info": self._info(state.model)})
            case "unloaded":
                data = {"status": "unloaded", "exit_code": FAILED if state.has_failed else 0}
                return event("status_change", state.model, data)
            case _:
                return event("status_change", state.model, {"status": state.value})

    def _info(self, name: ModelName) -> dict[str, Any]:
        """Of a model that may have been removed from the configuration."""
        spec = self._deps.dispatcher.catalog.find(name)
        if spec is None:
            return {"id": name}
        described = router_model(self._deps, self._deps.dispatcher.views.of(name), spec)
        return described.model_dump(exclude={"status"}, exclude_none=True)

    def _progress(self) -> Iterator[dict[str, Any]]:
        loading = [model for model, value in self._states.items() if value == "loading"]
        shares = {model: share for model in loading if (share := self._deps.share_read(model)) is not None}
        for model, share in shares.items():
            if share != self._shares.get(model):
                progress = {"stages": [STAGE], "current": STAGE, "value": round(share, 3)}
                yield event("status_change", model, {"status": "loading", "progress": progress})
        self._shares = shares


def event(kind: str, name: ModelName, data: dict[str, Any]) -> dict[str, Any]:
    return {"model": name, "event": kind, "data": data}


def passed(entry: Entry) -> Iterator[State]:
    """The states that models entered with a journal entry."""
    match entry.event:
        case UpstreamReady() if any(isinstance(command, RestoreConversations) for command in entry.commands):
            pass  # it is loaded when that is done
        case UpstreamReady(model=model) | ConversationsRestored(model=model) | UpstreamAwake(model=model):
            yield State(model, "loaded")
        case UpstreamFailed(model=model):
            yield State(model, "unloaded", has_failed=True)
        case UpstreamExited(model=model):
            is_crash = any(isinstance(command, ReportFailure) for command in entry.commands)
            yield State(model, "unloaded", is_crash)
    for command in entry.commands:
        if isinstance(command, StartUpstream | WakeUp):
            yield State(command.model, "loading")
