"""GET /v1/models: the models that clients may request. It never starts a model and never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import ApiDeps, Caller, Deps
from hotseat.api.routes.models import SHARE_READ, progress
from hotseat.api.schema_base import Error, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.catalog.named_models import FleetModel, RemoteModel, Selector
from hotseat.catalog.spec import ModelSpec
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel
    from hotseat.catalog.spec import Capabilities

router = APIRouter(tags=["inference"])

Status = Literal["loaded", "loading", "unloaded"]


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


@router.get("/v1/models", summary="The configured models", response_model=ModelList)
async def model_list(deps: Deps, caller: Caller) -> Listing:
    """A key that is restricted to some models lists only those."""
    catalog = deps.dispatcher.catalog
    shown = ((name, model) for name, model in listed(deps) if caller is None or caller.may_use(model.name))
    entries = (entry(deps, catalog, model, name) for name, model in shown)
    return Listing(page(ModelList(data=[]), data=rows(entries, exclude_none=True)))


@router.get(
    "/v1/models/{model:path}",
    summary="One model, by its name or an alias",
    response_model_exclude_none=True,
    responses={404: {"model": Error, "description": "The model is not defined in the configuration."}},
)
async def one_model(model: str, deps: Deps, caller: Caller) -> ModelEntry:
    catalog = deps.dispatcher.catalog
    named_model = catalog.follow(model)
    if caller is not None:
        caller.check_may_use(named_model.name)
    return entry(deps, catalog, named_model, model)


def listed(deps: ApiDeps) -> Iterator[tuple[str, NamedModel]]:
    """Our models, selectors, and models of peers and other hosts by their full names; aliases if configured."""
    catalog, with_aliases = deps.dispatcher.catalog, deps.settings().include_aliases_in_list
    for spec in catalog.listed():
        yield spec.name, spec
        if with_aliases:
            yield from ((alias, spec) for alias in spec.aliases)
    yield from ((name, selector) for name, selector in catalog.selectors.items() if not selector.unlisted)
    for name, remote in catalog.remotes.items():
        if with_aliases or name == remote.name:
            yield name, remote
    for name, model in catalog.fleet_models.items():
        if with_aliases or name == model.name:
            yield name, model


def entry(deps: ApiDeps, catalog: Catalog, named_model: NamedModel, name: str) -> ModelEntry:
    known = ModelEntry(id=name, created=int(deps.started_at), meta=meta(named_model, name))
    if isinstance(named_model, RemoteModel | FleetModel):
        return known
    known.name, known.description = named_model.title or None, named_model.description or None
    if isinstance(named_model, Selector):
        own = [target for target in catalog.choices(named_model) if isinstance(target, ModelSpec)]
        known.status = warmest([load_status(deps.dispatcher.questions.phase_of(target.name)) for target in own])
        return known
    phase = deps.dispatcher.questions.phase_of(named_model.name)
    reported, configured = deps.context(named_model.name), named_model.capabilities.context or None
    args = context_option(reported or configured)
    known.status = LoadStatus(value=load_status(phase), progress=progress(deps, named_model.name, phase), args=args)
    if reported is not None:
        known.meta["n_ctx"] = reported
    known.context_length = configured
    known.capabilities = abilities(named_model.capabilities) if named_model.capabilities else None
    return known


def context_option(context: int | None) -> list[str] | None:
    """Where llama.cpp's router has a model's command line, in which pi-llama-cpp looks for the context."""
    return ["--ctx-size", str(context)] if context else None


def meta(named_model: NamedModel, name: str) -> dict[str, Any]:
    """Details of a name, where llama-swap's clients look for them and in a place of our own."""
    kind = kind_of(named_model, name)
    metadata = {} if isinstance(named_model, RemoteModel | FleetModel) else dict(named_model.metadata)
    return {"llamaswap": {**metadata, **kind}, "hotseat": {**kind, "metadata": metadata}}


def kind_of(named_model: NamedModel, name: str) -> dict[str, Any]:
    match named_model:
        case RemoteModel():
            return {"type": "peer", "peerID": named_model.peer}
        case FleetModel():
            return {"type": "fleet"}
        case Selector():
            return {"type": "selector", "strategy": named_model.strategy.value, "targets": list(named_model.targets)}
        case ModelSpec():
            own = {"type": "model", "aliases": list(named_model.aliases)}
            return own if name == named_model.name else {"type": "alias", "modelID": named_model.name}


def abilities(capable: Capabilities) -> Abilities:
    return Abilities(
        input=list(capable.takes),
        output=list(capable.gives),
        vision="image" in capable.takes,
        audio_transcriptions="audio" in capable.takes,
        audio_speech="audio" in capable.gives,
        image_generation="image" in capable.gives,
        function_calling=capable.tools,
        reranker=capable.reranker,
    )


def warmest(found: list[Status]) -> LoadStatus:
    """The status of a selector is that of its warmest local target."""
    order: tuple[Status, ...] = ("loaded", "loading", "unloaded")
    return next((LoadStatus(value=status) for status in order if status in found), LoadStatus())


def load_status(phase: Phase) -> Status:
    """The phase in the terms of llama.cpp's own model list, which clients already show."""
    match phase:
        case Phase.READY:
            return "loaded"
        case Phase.LOADING:
            return "loading"
        case _:
            return "unloaded"
