"""GET /v1/models: what may be asked for. It never starts anything and never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter

from hotseat.api.context import Here
from hotseat.api.shapes import Error, LoadStatus, ModelEntry, ModelList
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.api.house import House
    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.view import View

router = APIRouter(tags=["inference"])


@router.get("/v1/models", summary="The configured models", response_model_exclude_none=True)
async def model_list(here: Here) -> ModelList:
    view, catalog = here.dispatcher.view(), here.dispatcher.catalog
    return ModelList(data=[entry(here, view, spec, name) for spec in catalog.listed() for name in ids(here, spec)])


@router.get(
    "/v1/models/{model:path}",
    summary="One model, by its name or an alias",
    response_model_exclude_none=True,
    responses={404: {"model": Error, "description": "The model is not defined in the configuration."}},
)
async def one_model(model: str, here: Here) -> ModelEntry:
    spec = here.dispatcher.catalog.resolve(model)
    return entry(here, here.dispatcher.view(), spec, model)


def ids(here: House, spec: ModelSpec) -> Iterator[str]:
    yield spec.name
    if here.settings().include_aliases_in_list:
        yield from spec.aliases


def entry(here: House, view: View, spec: ModelSpec, name: str) -> ModelEntry:
    return ModelEntry(
        id=name,
        created=int(here.started_at),
        status=LoadStatus(value=load_status(view.model(spec.name).phase)),
        name=spec.title or None,
        description=spec.description or None,
    )


def load_status(phase: Phase) -> Literal["loaded", "loading", "unloaded"]:
    """The phase in the words of llama.cpp's own model list, which clients already show."""
    match phase:
        case Phase.READY:
            return "loaded"
        case Phase.LOADING:
            return "loading"
        case _:
            return "unloaded"
