"""Serves the dashboard: files built from dashboard/ by `just dashboard`.

It uses only the public API, like any other client.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.responses import Response
    from starlette.types import Scope

ASSETS = Path(__file__).parent / "assets"

# Nothing inline, nothing from other origins: what a model or a log says can only ever be text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILE = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(include_in_schema=False)


def add_to(app: FastAPI) -> None:
    app.include_router(router)
    app.mount("/hotseat/ui", Files(directory=ASSETS, html=True))


# The relay routes only browsers that navigate here; for all other clients these paths are the model server's.
@router.get("/")
@router.get("/ui")
async def lead_to_the_dashboard() -> RedirectResponse:
    # Relative, because a reverse proxy may have added a prefix to our paths.
    return RedirectResponse("hotseat/ui/")


@router.get("/hotseat/ui")
async def add_the_slash() -> RedirectResponse:
    return RedirectResponse("ui/")


class Files(StaticFiles):
    """A file with its checksum in its name never changes; the page that names them is revalidated each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(FILE if path.startswith("files/") else PAGE)
        return response
