"""Bodies of requests to Ollama's API. Its clients send JSON under any content type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hotseat.errors import ClientError

if TYPE_CHECKING:
    from fastapi import Request

T = TypeVar("T")


async def body_of(request: Request, kind: type[T]) -> T:
    body = await request.body()
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ClientError(f"the request body must be JSON with a `model`: {problem}") from None


def describes_body() -> dict[str, Any]:
    """For the OpenAPI document, since FastAPI does not parse these bodies."""
    schema = {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
