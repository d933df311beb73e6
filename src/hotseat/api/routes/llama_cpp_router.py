"""The API of llama.cpp's router: models with their state, load, unload, and a feed of what changes.

For clients that manage the models of a llama-server, such as Open WebUI and pi-llama-cpp. As with the router, a load or
an unload is answered when it has begun; the feed or the list says when it is done.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from hotseat.api.background import begin
from hotseat.api.deps import Caller, Deps
from hotseat.api.disconnect import LiveStream
from hotseat.api.llama_cpp_errors import FAILS, permitted, problem, refusal
from hotseat.api.llama_cpp_events import state_feed
from hotseat.api.llama_cpp_models import router_model, router_state
from hotseat.api.llama_cpp_schemas import NamedInBody, RouterError, RouterModels, RouterSuccess
from hotseat.api.routes.events import EVENTS
from hotseat.api.routes.management import Responses
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import ClientError, HotseatError
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.activity.usage import Account
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec

router = APIRouter(tags=["llama.cpp's router"])

BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": NamedInBody.model_json_schema()}}}
}
NOT_SUPPORTED: Responses = {400: {"model": RouterError, "description": "hotseat does not do this over HTTP."}}


@router.get("/models", summary="The models of this host and their state", response_model=RouterModels)
async def models(deps: Deps, caller: Caller) -> Listing:
    """A key that is restricted to some models lists only those."""
    seen = {model.name: model for model in deps.dispatcher.views.current().models}
    shown = (spec for spec in deps.dispatcher.catalog.listed() if caller is None or caller.may_use(spec.name))
    described = (router_model(deps, seen.get(spec.name), spec) for spec in shown)
    return Listing(page(RouterModels(data=[]), data=rows(described, exclude_none=True)))


@router.post("/models/load", summary="Load a model; responds when it has begun", responses=FAILS, openapi_extra=BODY)
async def load(request: Request, deps: Deps, caller: Caller) -> Response:
    try:
        spec = named_in(await request.body(), deps, caller)
        if router_state(deps.dispatcher.views.of(spec.name)) != "unloaded":
            raise ClientError(f"model is already running: {spec.name} is loaded or loading")
        await begin(deps.dispatcher.operator.load(spec.name), f"load {spec.name}", deps.tasks)
    except HotseatError as error:
        return refusal(error)
    return JSONResponse(RouterSuccess().model_dump())


@router.post(
    "/models/unload", summary="Unload a model; responds when it has begun", responses=FAILS, openapi_extra=BODY
)
async def unload(request: Request, deps: Deps, caller: Caller) -> Response:
    try:
        spec = named_in(await request.body(), deps, caller)
        await begin(deps.dispatcher.operator.unload(spec.name), f"unload {spec.name}", deps.tasks)
    except HotseatError as error:
        # The router has 400 for a model that does not exist and for one that does not run.
        return refusal(error, HTTPStatus.BAD_REQUEST if error.status in (404, 409) else None)
    return JSONResponse(RouterSuccess().model_dump())


@router.get("/models/sse", summary="Changes of the models' states, live", response_class=Response, responses=EVENTS)
async def sse(request: Request, caller: Caller) -> Response:
    return LiveStream(state_feed(request.app.state.model_changes, caller))


@router.post("/models", summary="Not supported: `hotseat pull` downloads models", responses=NOT_SUPPORTED)
async def download() -> Response:
    return problem(HTTPStatus.BAD_REQUEST, "hotseat downloads no models over HTTP; use `hotseat pull`")


@router.delete("/models", summary="Not supported: `hotseat rm` deletes models", responses=NOT_SUPPORTED)
async def remove() -> Response:
    return problem(HTTPStatus.BAD_REQUEST, "hotseat deletes no models over HTTP; use `hotseat rm`")


def named_in(body: bytes, deps: ApiDeps, caller: Account | None) -> ModelSpec:
    """The model that the body names, of whatever type the body declares itself to be: the router does not look."""
    try:
        model = parsed(body)["model"]
    except (ValueError, KeyError, TypeError):
        raise ClientError('the body must be JSON with the name of a model: {"model": "NAME"}') from None
    return permitted(deps.dispatcher.catalog.resolve(str(model)), caller)
