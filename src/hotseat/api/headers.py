"""Headers of every response of the management application, and HEAD handled as GET."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


USUAL = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


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
