"""The API of llama.cpp's router: models with their state, load, unload, properties, and a feed of what changes.

For clients that manage the models of a llama-server, such as Open WebUI and pi-llama-cpp. As with the router, a load or
an unload is answered when it has begun; the feed or the list says when it is done.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from hotseat import __version__
from hotseat.activity.usage import as_told_to
from hotseat.api.deps import Caller, Deps, permitted
from hotseat.api.disconnect import LiveStream
from hotseat.api.llama_cpp_models import (
    NamedInBody,
    RouterError,
    RouterModels,
    RouterProps,
    RouterSuccess,
    router_model,
    router_state,
    state_feed,
)
from hotseat.api.routes.events import EVENTS
from hotseat.api.routes.management import Responses
from hotseat.api.slices import Listing, page, rows
from hotseat.error_bodies import retry_headers
from hotseat.errors import ClientError, HotseatError
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hotseat.activity.usage import Account
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address
    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)

router = APIRouter(tags=["llama.cpp's router"])

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
LONGEST_PROPS_S, LONGEST_PROPS = 5.0, 1 << 20
_checked = msgspec.json.Decoder(msgspec.Raw).decode


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
        return refusal(error, caller)
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
        return refusal(error, caller, HTTPStatus.BAD_REQUEST if error.status in (404, 409) else None)
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
        spec = permitted(model, deps, caller)
    except HotseatError as error:
        return refusal(error, caller, HTTPStatus.BAD_REQUEST if error.status == HTTPStatus.NOT_FOUND else None)
    return await props_of_model(deps, spec, None if caller else request.headers.get("authorization"))


def named_in(body: bytes, deps: ApiDeps, caller: Account | None) -> ModelSpec:
    """The model that the body names, of whatever type the body declares itself to be: the router does not look."""
    try:
        model = parsed(body)["model"]
    except (ValueError, KeyError, TypeError):
        raise ClientError('the body must be JSON with the name of a model: {"model": "NAME"}') from None
    return permitted(str(model), deps, caller)


async def props_of_model(deps: ApiDeps, spec: ModelSpec, credentials: str | None) -> Response:
    """Neither starts the model nor keeps it loaded. Clients compare these messages."""
    seen = deps.dispatcher.views.of(spec.name)
    state = router_state(seen)
    if state == "loading":
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "Loading model")
    if state == "unloaded":
        return problem(HTTPStatus.BAD_REQUEST, "model is not loaded")
    if seen.phase is Phase.ASLEEP or seen.upstream is None:
        return JSONResponse({"model_alias": spec.name, "is_sleeping": True})
    key = seen.upstream.api_key
    return await asked(seen.upstream.address, f"Bearer {key}" if key else credentials)


async def asked(address: Address, credentials: str | None) -> Response:
    """The model server's own answer, if it is JSON: anything else could be a page with our rights."""
    lines = f"Authorization: {credentials}\r\n".encode("latin-1") if credentials else b""
    try:
        answer = await fetch(address, "/props", Connector(), lines=lines, within=LONGEST_PROPS_S, most=LONGEST_PROPS)
        whole = _checked(answer.body.decode())  # not its values: a million of them would block others
        return Response(bytes(whole), answer.status, media_type="application/json")
    except (OSError, ValueError, RecursionError):
        return problem(HTTPStatus.BAD_GATEWAY, "the server of this model does not answer GET /props with JSON")


async def begin(work: Awaitable[None], name: str, tasks: Tasks) -> None:
    """Return once the scheduler has judged it, raise if it was refused at once; a later failure is logged."""
    task: asyncio.Task[HotseatError | None] = tasks.start(_outcome(work), name)
    await asyncio.sleep(0)
    if not task.done():
        task.add_done_callback(_log_failure)
    elif (error := task.result()) is not None:
        raise error


async def _outcome(work: Awaitable[None]) -> HotseatError | None:
    try:
        await work
    except HotseatError as error:
        return error
    return None


def _log_failure(task: asyncio.Task[HotseatError | None]) -> None:
    if not task.cancelled() and task.exception() is None and (error := task.result()) is not None:
        log.warning("failed in the background action=%r error=%r", task.get_name(), error.message)


def refusal(error: HotseatError, caller: Account | None, status: int | None = None) -> Response:
    error = as_told_to(caller, error)
    return problem(status or error.status, error.message, retry_headers(error))


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    kind = TYPES.get(HTTPStatus(status), "server_error" if status >= 500 else "invalid_request_error")
    return JSONResponse({"error": {"code": int(status), "message": message, "type": kind}}, status, headers)
