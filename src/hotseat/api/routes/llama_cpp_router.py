"""The API of llama.cpp's router: models with their state, load, unload, and a feed of what changes.

For clients that manage the models of a llama-server, such as Open WebUI and pi-llama-cpp. As with the router, a load or
an unload is answered when it has begun; the feed or the list says when it is done.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from hotseat import __version__
from hotseat.api.background import begin
from hotseat.api.deps import Caller, Deps
from hotseat.api.disconnect import LiveStream
from hotseat.api.llama_cpp_models import router_model, router_state
from hotseat.api.llama_cpp_schemas import NamedInBody, RouterError, RouterModels, RouterProps, RouterSuccess
from hotseat.api.model_events import state_feed
from hotseat.api.routes.events import EVENTS
from hotseat.api.routes.management import Responses
from hotseat.errors import ClientError, HotseatError
from hotseat.net.happy_eyeballs import Dialler
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed
from hotseat.scheduling.lifecycle import Phase
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.activity.usage import Account
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address

router = APIRouter(tags=["llama.cpp's router"])

LONGEST_PROPS_S = 5.0
TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable_error",
}
FAILS: Responses = {
    status: {"model": RouterError, "description": description}
    for status, description in (
        (400, "The request is invalid, or does not fit the state of the model."),
        (403, "This API key may not use the model."),
        (404, "The model is not defined in the configuration."),
        (429, "The queue is full; see Retry-After."),
        (503, "The model is loading or cannot be loaded now."),
    )
}
BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": NamedInBody.model_json_schema()}}}
}
NOT_SUPPORTED: Responses = {400: {"model": RouterError, "description": "hotseat does not do this over HTTP."}}


@router.get("/models", summary="The models of this host and their state", response_model_exclude_none=True)
async def models(deps: Deps, caller: Caller) -> RouterModels:
    """A key that is restricted to some models lists only those."""
    view = deps.dispatcher.view()
    shown = [spec for spec in deps.dispatcher.catalog.listed() if caller is None or caller.may_use(spec.name)]
    return RouterModels(data=[router_model(deps, view, spec, with_args=is_operator(caller)) for spec in shown])


@router.post("/models/load", summary="Load a model; responds when it has begun", responses=FAILS, openapi_extra=BODY)
async def load(request: Request, deps: Deps, caller: Caller) -> Response:
    try:
        spec = named_in(await request.body(), deps, caller)
        if router_state(deps.dispatcher.view().model(spec.name)) != "unloaded":
            raise ClientError(f"model is already running: {spec.name} is loaded or loading")
        await begin(deps.dispatcher.load(spec.name), f"load {spec.name}", deps.tasks)
    except HotseatError as error:
        return refusal(error)
    return JSONResponse(RouterSuccess().model_dump())


@router.post(
    "/models/unload", summary="Unload a model; responds when it has begun", responses=FAILS, openapi_extra=BODY
)
async def unload(request: Request, deps: Deps, caller: Caller) -> Response:
    try:
        spec = named_in(await request.body(), deps, caller)
        await begin(deps.dispatcher.unload(spec.name), f"unload {spec.name}", deps.tasks)
    except HotseatError as error:
        # The router has 400 for a model that does not exist and for one that does not run.
        return refusal(error, HTTPStatus.BAD_REQUEST if error.status in (404, 409) else None)
    return JSONResponse(RouterSuccess().model_dump())


@router.get("/models/sse", summary="Changes of the models' states, live", response_class=Response, responses=EVENTS)
async def sse(deps: Deps, caller: Caller) -> Response:
    return LiveStream(state_feed(deps, caller))


@router.post("/models", summary="Not supported: `hotseat pull` downloads models", responses=NOT_SUPPORTED)
async def download() -> Response:
    return problem(HTTPStatus.BAD_REQUEST, "hotseat downloads no models over HTTP; use `hotseat pull`")


@router.delete("/models", summary="Not supported: `hotseat rm` deletes models", responses=NOT_SUPPORTED)
async def remove() -> Response:
    return problem(HTTPStatus.BAD_REQUEST, "hotseat deletes no models over HTTP; use `hotseat rm`")


@router.get(
    "/props",
    summary="With `autoload=false`: the properties of the router, or of a model if it is loaded",
    response_model=RouterProps,
    responses=FAILS,
)
async def props(
    request: Request,
    deps: Deps,
    caller: Caller,
    model: Annotated[str, Query(description="Empty: the router itself.")] = "",
    autoload: Annotated[str, Query(description="Without it, the request is forwarded to the model.")] = "",
) -> Response:
    if not model:
        return JSONResponse(RouterProps(build_info=f"hotseat {__version__}").model_dump())
    try:
        spec = permitted(deps.dispatcher.catalog.resolve(model), caller)
    except HotseatError as error:
        return refusal(error, HTTPStatus.BAD_REQUEST if error.status == HTTPStatus.NOT_FOUND else None)
    return await props_of_model(deps, spec, None if caller else request.headers.get("authorization"))


async def props_of_model(deps: ApiDeps, spec: ModelSpec, credentials: str | None) -> Response:
    """Neither starts the model nor keeps it loaded. Clients compare these messages."""
    seen = deps.dispatcher.view().model(spec.name)
    state = router_state(seen)
    if state == "loading":
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "Loading model")
    if state == "unloaded":
        return problem(HTTPStatus.BAD_REQUEST, "model is not loaded")
    if seen.phase is Phase.ASLEEP or seen.upstream is None:
        return JSONResponse({"model_alias": spec.name, "is_sleeping": True})
    return await asked(seen.upstream.address, credentials)


async def asked(address: Address, credentials: str | None) -> Response:
    """The model server's own answer, if it is JSON: anything else could be a page with our rights."""
    lines = f"Authorization: {credentials}\r\n".encode("latin-1") if credentials else b""
    try:
        answer = await fetch(address, "/props", Dialler(), lines=lines, within=LONGEST_PROPS_S)
        return JSONResponse(parsed(answer.body), answer.status)
    except (OSError, ValueError):
        return problem(HTTPStatus.BAD_GATEWAY, "the server of this model does not answer GET /props with JSON")


def named_in(body: bytes, deps: ApiDeps, caller: Account | None) -> ModelSpec:
    """The model that the body names, of whatever type the body declares itself to be: the router does not look."""
    try:
        model = parsed(body)["model"]
    except (ValueError, KeyError, TypeError):
        raise ClientError('the body must be JSON with the name of a model: {"model": "NAME"}') from None
    return permitted(deps.dispatcher.catalog.resolve(str(model)), caller)


def permitted(spec: ModelSpec, caller: Account | None) -> ModelSpec:
    if caller is not None:
        caller.check_may_use(spec.name)
    return spec


def is_operator(caller: Account | None) -> bool:
    return caller is None or caller.key.role is not Role.INFERENCE


def refusal(error: HotseatError, status: int | None = None) -> Response:
    return problem(status or error.status, error.message)


def problem(status: int, message: str) -> Response:
    kind = TYPES.get(HTTPStatus(status), "server_error" if status >= 500 else "invalid_request_error")
    return JSONResponse({"error": {"code": int(status), "message": message, "type": kind}}, status)
