"""What holds for every answer of the management application: its headers, and that HEAD is answered as GET is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


USUAL = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Manners:
    """Nothing here may be answered from a cache: a load has an effect, and a state is true for a moment only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def politely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # Files know their own age.
                skipped = "Cache-Control" if "etag" in headers else ""
                headers.update({name: value for name, value in USUAL.items() if name != skipped})
            await send(message)

        await self._app(_as_get(scope), receive, politely)


def _as_get(scope: Scope) -> Scope:
    """uvicorn leaves the body out. Only a load has no HEAD: looking at it must not start a model."""
    if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].endswith("/load"):
        return scope
    return {**scope, "method": "GET"}
