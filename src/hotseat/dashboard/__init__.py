"""Serves the web dashboard, which `just dashboard` builds from dashboard/ into assets/.

The dashboard runs in the browser and uses the public API only, like any other client.
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

# No inline code and nothing from other origins, so that text from models and logs cannot run as code. Images may be
# `data:` URLs, because the playground shows the images of a message; an image runs no code.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
SAME_PAGES = ("models", "activity", "logs", "playground")
"""Of llama-swap's pages."""
FILE = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(include_in_schema=False)


def add_to(app: FastAPI) -> None:
    app.include_router(router)
    app.mount("/hotseat/ui", Files(directory=ASSETS, html=True))


# The relay routes only browser navigations to `/`, and with `passthrough: strict` none: all other requests belong to
# the model server, or to `/idle` while there is none.
@router.get("/", summary="For browsers: leads to the dashboard")
@router.get("/ui", summary="Leads to the dashboard")
async def redirect_to_dashboard() -> RedirectResponse:
    # Relative, because a reverse proxy may add a path prefix.
    return RedirectResponse("hotseat/ui/")


@router.get("/upstream", summary="Leads to the dashboard's page of models")
async def redirect_to_models() -> RedirectResponse:
    """llama-swap shows the models there."""
    return RedirectResponse("hotseat/ui/#/models")


@router.get("/ui/{page:path}", summary="Leads to the dashboard, to the page of the same name if there is one")
async def redirect_from_llama_swap(page: str) -> RedirectResponse:
    """Bookmarks of llama-swap's pages, some of which have the same name here."""
    return RedirectResponse("../" * (page.count("/") + 1) + "hotseat/ui/" + (f"#/{page}" if page in SAME_PAGES else ""))


@router.get("/hotseat/ui", summary="Leads to the dashboard")
async def add_the_slash() -> RedirectResponse:
    return RedirectResponse("ui/")


class Files(StaticFiles):
    """Files whose names contain a hash are cached forever; index.html is revalidated each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(FILE if path.startswith("files/") else PAGE)
        return response
