"""GET /props with `autoload=false`, as llama.cpp's router answers it. Without that it belongs to the model server."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from hotseat import __version__
from hotseat.api.deps import Caller, Deps
from hotseat.api.llama_cpp_errors import FAILS, permitted, problem, refusal
from hotseat.api.llama_cpp_models import router_state
from hotseat.api.llama_cpp_schemas import RouterProps
from hotseat.errors import HotseatError
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from hotseat.api.deps import ApiDeps
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address

router = APIRouter(tags=["llama.cpp's router"])

LONGEST_PROPS_S, LONGEST_PROPS = 5.0, 1 << 20
_checked = msgspec.json.Decoder(msgspec.Raw).decode


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
