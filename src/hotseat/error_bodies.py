"""Render errors as bytes: the one place that turns a HotseatError into an HTTP response or an event of a stream.

Some SDKs hide plain text, so each client gets the error format it understands. X-Error-Code and X-Error-Message carry
code and text for clients that read only headers.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec

from hotseat.errors import HostUnproven, HotseatError, NotServed, OverLimit

LONGEST_HEADER = 500
SHORTEST_RETRY_S, LONGEST_RETRY_S = 1, 60


class Dialect(Enum):
    TEXT = "text"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MANAGEMENT = "management"


def answer(error: HotseatError, dialect: Dialect, *, request_id: bytes, close: bool, head_only: bool = False) -> bytes:
    """The complete HTTP/1.1 response for an error."""
    message = encodable(error.message)
    body = msgspec.json.encode(_shaped(message, error.code, error.status, dialect))
    head = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Error-Code: {error.code}",
        f"X-Error-Message: {one_line(message, LONGEST_HEADER)}",
        f"X-Request-Id: {request_id.decode()}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *_advice(error),
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + (b"" if head_only else body)


def stream_error(message: str, code: str, dialect: Dialect) -> bytes:
    """The last event of a stream that failed after its head; never the event of a clean end."""
    shape = Dialect.ANTHROPIC if dialect is Dialect.ANTHROPIC else Dialect.OPENAI
    return _as_event(_shaped(encodable(message), code, HotseatError.status, shape), shape)


def passed_on_error(body: bytes, dialect: Dialect) -> bytes | None:
    """The same with an upstream's own error, whose type and code some clients use; None if it sent none."""
    try:
        error = _read_said(body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(error.get("message"), str):
        return None
    if dialect is Dialect.ANTHROPIC:
        return _as_event({"type": "error", "error": {"type": "api_error", **error}}, dialect)
    return _as_event({"error": error}, dialect)


class _Said(msgspec.Struct):
    error: dict[str, Any]


_read_said = msgspec.json.Decoder(_Said).decode


def _as_event(shaped: dict[str, Any], dialect: Dialect) -> bytes:
    event = b"event: error\n" if dialect is Dialect.ANTHROPIC else b""
    return event + b"data: " + msgspec.json.encode(shaped) + b"\n\n"


def one_line(text: str, limit: int) -> str:
    """The start of a text as printable ASCII, fit for a header."""
    return _UNPRINTABLE.sub("?", " ".join(text[: 4 * limit].split()))[:limit].rstrip()


_UNPRINTABLE = re.compile(r"[^ -~]")

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {**_OPENAI_TYPES, 404: "not_found_error", 413: "request_too_large"}

# These make a browser ask for a name and password, so that people can open a protected dashboard.
_CHALLENGES = ('WWW-Authenticate: Bearer realm="hotseat"', 'WWW-Authenticate: Basic realm="hotseat"')
# A window that a foreign page opened shows this error at our address, and would request our favicon.
_NO_ICON = ("Content-Security-Policy: sandbox; default-src 'none'",)
_FOR_BROWSERS: dict[int, tuple[str, ...]] = {HTTPStatus.UNAUTHORIZED: _CHALLENGES, HTTPStatus.FORBIDDEN: _NO_ICON}


def _shaped(message: str, code: str, status: int, dialect: Dialect) -> dict[str, Any]:
    if dialect is Dialect.TEXT:
        return {"error": message}
    if dialect is Dialect.MANAGEMENT:
        return {"status": "error", "message": message, "error": message}
    if dialect is Dialect.ANTHROPIC:
        kind = _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _advice(error: HotseatError) -> list[str]:
    advice = list(_FOR_BROWSERS.get(error.status, ()))
    if isinstance(error, NotServed):
        advice.append("Hotseat-Not-Served: 1")
    if isinstance(error, HostUnproven):
        advice.append("Hotseat-Not-Served: unproven")
    advice += [f"{name}: {value}" for name, value in retry_headers(error).items()]
    if isinstance(error, OverLimit):
        advice += error.fields
    return advice


def retry_headers(error: HotseatError) -> dict[str, str]:
    """The same in every API: `Retry-After` exactly if a retry can help, and `x-should-retry` agrees with it."""
    if not error.retry_helps:
        return {} if error.retry_helps is None else {"x-should-retry": "false"}
    # Some clients sleep for any value, and others give up above two minutes.
    wait_s = min(max(error.retry_after or 0.0, SHORTEST_RETRY_S), LONGEST_RETRY_S)
    return {"x-should-retry": "true", "Retry-After": str(math.ceil(wait_s))}


def encodable(text: str) -> str:
    """Replace lone surrogates, which come from undecodable process output and are invalid in JSON."""
    return text.encode("utf-8", "replace").decode()
