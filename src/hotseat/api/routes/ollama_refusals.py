"""The routes of Ollama's API that change models on disk: refused with what to do instead."""

from __future__ import annotations

from fastapi import APIRouter

from hotseat.api.schema_base import Error
from hotseat.errors import NotImplementedHere

router = APIRouter(tags=["ollama"])

REFUSED = NotImplementedHere.status
NOT_BY_API = "hotseat does not change models over the network."


@router.post("/api/pull", summary="Refused: use `hotseat pull`", status_code=REFUSED)
async def pull() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To download one, run `hotseat pull ORG/REPO` in a terminal.")


@router.delete("/api/delete", summary="Refused: use `hotseat rm`", status_code=REFUSED)
async def delete() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To delete one, run `hotseat rm MODEL` in a terminal.")


@router.post("/api/create", summary="Refused: edit the configuration", status_code=REFUSED)
async def create() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} To define one, add it under `models` in the configuration and reload.")


@router.post("/api/copy", summary="Refused: edit the configuration", status_code=REFUSED)
async def copy() -> Error:
    raise NotImplementedHere(
        f"{NOT_BY_API} To give one another name, add it to its `aliases` in the configuration and reload."
    )


@router.post("/api/push", summary="Refused: hotseat publishes no models", status_code=REFUSED)
async def push() -> Error:
    raise NotImplementedHere(f"{NOT_BY_API} It does not publish them either; upload the file with the hub's own tools.")


@router.get("/api/blobs/{digest:path}", include_in_schema=False)  # the relay leads only HEAD here
@router.post("/api/blobs/{digest:path}", summary="Refused: copy files yourself", status_code=REFUSED)
async def blobs(digest: str) -> Error:
    raise NotImplementedHere(
        f"{NOT_BY_API} Copy the file to this machine and add it under `models`, or to `modelsDir`."
    )
