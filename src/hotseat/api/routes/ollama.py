"""Ollama's API, as far as no model server is needed to answer: for tools that know only Ollama."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from hotseat.api.deps import ApiDeps, Caller, Deps
from hotseat.api.ollama_bodies import body_of, describes_body
from hotseat.api.ollama_models import (
    capabilities,
    details,
    entry,
    facts_of,
    known_model,
    local_model,
    model_info,
    rfc3339,
)
from hotseat.api.ollama_schemas import (
    OllamaModel,
    OllamaModelList,
    OllamaRunning,
    OllamaRunningModel,
    OllamaShown,
    OllamaVersion,
)
from hotseat.api.routes.v1_models import listed
from hotseat.api.schema_base import Error
from hotseat.api.slices import Listing, page, rows
from hotseat.identifiers import CENTURY_S, RAM
from hotseat.ollama.names import listed_name

if TYPE_CHECKING:
    from hotseat.api.routes.management import Responses
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, Seconds
    from hotseat.model_files.facts import ModelFacts
    from hotseat.scheduling.view import ModelView, View

router = APIRouter(tags=["ollama"])

VERSION = "0.12.0"
"""The version of Ollama whose API this is; clients refuse to work with older ones."""
SHOW_ERRORS: Responses = {
    400: {"model": Error, "description": "The body is not JSON."},
    404: {"model": Error, "description": "The model is not defined in the configuration."},
}


@router.get("/api", include_in_schema=False)
async def is_running() -> PlainTextResponse:
    """What the bare address of the listener for Ollama's clients says; they check for these words."""
    return PlainTextResponse("Ollama is running")


@router.get("/api/version", summary="The version of Ollama whose API hotseat speaks")
async def version() -> OllamaVersion:
    return OllamaVersion(version=VERSION)


@router.get("/api/tags", summary="The configured models", response_model=OllamaModelList)
async def tags(deps: Deps, caller: Caller) -> Listing:
    """A key that is restricted to some models lists only those."""
    shown = [(name, named) for name, named in listed(deps) if caller is None or caller.may_use(named.name)]
    facts = await facts_of(deps, [named for _, named in shown])
    catalog = deps.dispatcher.catalog
    specs = ((name, local_model(named, catalog)) for name, named in shown)
    models = (tag(deps, name, facts.get(spec.name) if spec else None) for name, spec in specs)
    return Listing(page(OllamaModelList(models=[]), models=rows(models)))


def tag(deps: ApiDeps, name: str, facts: ModelFacts | None) -> OllamaModel:
    return OllamaModel(**entry(name, facts), modified_at=modified_at(deps, facts))


def modified_at(deps: ApiDeps, facts: ModelFacts | None) -> str:
    return rfc3339(facts.modified_at if facts else deps.started_at)


@router.get("/api/ps", summary="The running models", response_model=OllamaRunning)
async def ps(deps: Deps, caller: Caller) -> Listing:
    view, catalog = deps.dispatcher.views.current(), deps.dispatcher.catalog
    running = [seen for seen in view.running() if caller is None or caller.may_use(seen.name)]
    specs = [spec for seen in running if (spec := catalog.models.get(seen.name)) is not None]
    facts = await deps.facts(specs)
    models = (loaded(deps, view, seen, facts.get(seen.name)) for seen in running)
    return Listing(page(OllamaRunning(models=[]), models=rows(models)))


def loaded(deps: ApiDeps, view: View, seen: ModelView, facts: ModelFacts | None) -> OllamaRunningModel:
    known = entry(seen.name, facts)
    total, on_gpus = memory(seen)
    return OllamaRunningModel(
        **{**known, "size": total or known["size"]},
        size_vram=on_gpus,
        expires_at=rfc3339(time.time() + left_s(view, seen)),
        context_length=context_of(deps, deps.dispatcher.catalog.models.get(seen.name)),
    )


def memory(seen: ModelView) -> tuple[Bytes, Bytes]:
    """In total, and on GPUs; measured or as it counts."""
    held = seen.measured or (seen.footprint.memory if seen.footprint else {})
    return sum(held.values()), sum(size for place, size in held.items() if place.device != RAM)


def left_s(view: View, seen: ModelView) -> Seconds:
    """Until it is unloaded if its current requests end now and no other comes."""
    if seen.expires_at is not None:
        return max(0.0, seen.expires_at - view.now)
    # Ollama's clients show a century as "forever".
    return CENTURY_S if seen.ttl_s is None else seen.ttl_s


def context_of(deps: ApiDeps, spec: ModelSpec | None) -> int:
    return 0 if spec is None else deps.context(spec.name) or spec.capabilities.context


class ShowRequest(msgspec.Struct):
    model: str = ""
    name: str = ""
    """What older clients call it."""


@router.post("/api/show", summary="What is known about a model", responses=SHOW_ERRORS, openapi_extra=describes_body())
async def show(request: Request, deps: Deps, caller: Caller) -> OllamaShown:
    asked = await body_of(request, ShowRequest)
    name, catalog = asked.model or asked.name, deps.dispatcher.catalog
    named = known_model(name, catalog)
    if caller is not None:
        caller.check_may_use(named.name)
    spec = local_model(named, catalog)
    facts = (await facts_of(deps, [named])).get(spec.name) if spec else None
    context = context_of(deps, spec)
    return OllamaShown(
        modelfile=f"FROM {listed_name(name)}\n",
        parameters=f"num_ctx                        {context}" if context else "",
        details=details(facts),
        model_info=model_info(facts),
        capabilities=capabilities(spec, facts),
        modified_at=modified_at(deps, facts),
    )
