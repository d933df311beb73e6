"""What all responses have in common: usual headers, and failures in the format that their client expects.

Failures are management results, or the errors of /v1/. HEAD is handled as GET.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException

from hotseat.activity.usage import as_told_to
from hotseat.api.deps import account_of
from hotseat.api.disconnect import HUNG_UP, ClientGone
from hotseat.error_bodies import encodable, retry_headers
from hotseat.errors import ClientError, Forbidden, HotseatError, LoadFailed
from hotseat.settings import ErrorFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hotseat.api.deps import ApiDeps

USUAL = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
MOST_PROBLEMS = 10
"""Mistakes of a request: a small body can have thousands."""


def add_error_handlers(app: FastAPI, deps: ApiDeps) -> None:
    """Register handlers for everything that the routes may raise."""

    async def hotseat_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HotseatError)
        # Whoever may load a model for others may see its server's output.
        if isinstance(error, LoadFailed) and not is_ollamas(request):
            error = error.for_operators()
        try:
            error = as_told_to(account_of(request, deps), error)
        except Forbidden:  # its key was revoked meanwhile
            error = error.without_names()
        return refusal(request, error, deps.settings().error_format)

    async def no_such_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        body = failure(f"{request.method} {request.url.path}: {error.detail}. See /swagger for the available routes.")
        return JSONResponse(body, error.status_code, error.headers)

    async def misspelt(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return JSONResponse(failure(in_words(error)), HTTPStatus.BAD_REQUEST)

    async def client_gone(request: Request, error: Exception) -> Response:
        return Response(status_code=HUNG_UP)

    async def bug(request: Request, error: Exception) -> Response:
        body = failure(
            f"{request.method} {request.url.path} failed because of an internal error; see the log of hotseat"
        )
        return JSONResponse(body, HTTPStatus.INTERNAL_SERVER_ERROR, USUAL)  # Starlette skips our middleware here

    app.add_exception_handler(HotseatError, hotseat_error)
    app.add_exception_handler(HTTPException, no_such_route)
    app.add_exception_handler(RequestValidationError, misspelt)
    app.add_exception_handler(ClientGone, client_gone)
    app.add_exception_handler(Exception, bug)


def refusal(request: Request, error: HotseatError, error_format: ErrorFormat) -> Response:
    """The error in the client's format, with retry headers."""
    headers = {"X-Error-Code": error.code, **retry_headers(error)}
    return JSONResponse(_body(request, error, error_format), error.status, headers)


def failure(message: str) -> dict[str, Any]:
    return {"status": "error", "message": encodable(message), "error": encodable(message)}


def in_words(error: RequestValidationError) -> str:
    problems = error.errors()
    text = "; ".join(f"{parameter_in(problem['loc'])}: {problem['msg']}" for problem in problems[:MOST_PROBLEMS])
    return text if len(problems) <= MOST_PROBLEMS else f"{text}; and {len(problems) - MOST_PROBLEMS} more"


def parameter_in(place: Sequence[str | int]) -> str:
    """The last name: a number after it is the position in a list."""
    return next((part for part in reversed(place) if isinstance(part, str)), "")


def is_ollamas(request: Request) -> bool:
    """llama-swap has paths under /api/ too."""
    return "ollama" in getattr(request.scope.get("route"), "tags", ())


def _body(request: Request, error: HotseatError, error_format: ErrorFormat) -> dict[str, Any]:
    if is_ollamas(request):
        return {"error": encodable(error.message)}
    if not request.url.path.startswith("/v1/"):
        return failure(error.message)
    if not _wants_an_object(request, error_format):
        return {"error": error.message}
    kind = "invalid_request_error" if isinstance(error, ClientError) else "server_error"
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def _wants_an_object(request: Request, error_format: ErrorFormat) -> bool:
    """The same rule as in the relay."""
    if error_format is not ErrorFormat.AUTO:
        return error_format is ErrorFormat.OPENAI
    agent = request.headers.get("user-agent", "")
    return "x-stainless-lang" in request.headers or agent.startswith(("OpenAI/", "ai-sdk/")) or " ai-sdk/" in agent


class CommonHeaders:
    """Disables caching: a load has an effect, and a state is current only for a moment."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def politely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # Static files (with an ETag) may be cached.
                skipped = "Cache-Control" if "etag" in headers else ""
                headers.update({name: value for name, value in USUAL.items() if name != skipped})
            await send(message)

        await self._app(_as_get(scope), receive, politely)


def _as_get(scope: Scope) -> Scope:
    """uvicorn omits the body. Only a load and an unload have no HEAD, which must not change anything."""
    if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].endswith(("/load", "/unload")):
        return scope
    return {**scope, "method": "GET"}
