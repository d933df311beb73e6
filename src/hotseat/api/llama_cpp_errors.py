"""Errors in the format of llama.cpp's router, and the check that a caller may use a model."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.responses import JSONResponse, Response

from hotseat.api.llama_cpp_schemas import RouterError
from hotseat.error_bodies import retry_headers

if TYPE_CHECKING:
    from hotseat.activity.usage import Account
    from hotseat.api.routes.management import Responses
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError

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


def permitted(spec: ModelSpec, caller: Account | None) -> ModelSpec:
    if caller is not None:
        caller.check_may_use(spec.name)
    return spec


def refusal(error: HotseatError, status: int | None = None) -> Response:
    return problem(status or error.status, error.message, retry_headers(error))


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    kind = TYPES.get(HTTPStatus(status), "server_error" if status >= 500 else "invalid_request_error")
    return JSONResponse({"error": {"code": int(status), "message": message, "type": kind}}, status, headers)
