"""PURE: the error format of a client, by its path and its headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.error_bodies import Dialect
from hotseat.relay.routing.paths import ONLY_LISTED
from hotseat.settings import ErrorFormat

if TYPE_CHECKING:
    from hotseat.relay.http.request_head import RequestHead


def dialect_for(head: RequestHead, error_format: ErrorFormat) -> Dialect:
    stainless = b"x-stainless-lang" in head.known
    return dialect_of(head.target, stainless, head.known.get(b"user-agent", b""), error_format)


def dialect_of(path: bytes, stainless: bool, user_agent: bytes, format: ErrorFormat) -> Dialect:  # noqa: A002 - the key's own name
    """Always plain text outside /v1/."""
    dialect = ONLY_LISTED.of_model(b"POST", _path_at_the_model(path)).dialect
    if dialect is Dialect.TEXT:
        return dialect
    if format is not ErrorFormat.AUTO:
        return Dialect.OPENAI if format is ErrorFormat.OPENAI else Dialect.TEXT
    if dialect is Dialect.ANTHROPIC:
        return dialect
    speaks_openai = stainless or user_agent.startswith((b"OpenAI/", b"ai-sdk/")) or b" ai-sdk/" in user_agent
    return Dialect.OPENAI if speaks_openai else Dialect.TEXT


def _path_at_the_model(path: bytes) -> bytes:
    path = path.partition(b"?")[0]
    if not path.startswith(b"/upstream/"):
        return path
    inner = path.find(b"/v1/", len(b"/upstream/"))
    return path[inner:] if inner > 0 else path
