"""The documentation page, from bundled files: it works without the internet."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

ASSETS = Path(__file__).parents[1] / "assets"

# swagger-ui draws its icons from data: URLs; apart from those it needs only our own files.
POLICY = (
    "default-src 'self'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

router = APIRouter()
assets = StaticFiles(directory=ASSETS)


@router.get(
    "/swagger",
    tags=["management"],
    summary="The API documentation as a web page",
    response_class=FileResponse,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "An HTML page."}},
)
async def swagger() -> FileResponse:
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
    return FileResponse(ASSETS / "swagger.html", media_type="text/html", headers=headers)


# Not async: building the document takes 90 ms, which must not block the event loop.
@router.get("/hotseat/openapi.json", tags=["hotseat"], summary="The OpenAPI description")
def openapi(request: Request) -> JSONResponse:
    from hotseat.api.openapi import document  # a start is faster without it, and few people ask

    app: FastAPI = request.app
    app.openapi_schema = app.openapi_schema or document(app)
    return JSONResponse(app.openapi_schema)
