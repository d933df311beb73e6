"""POST /api/chat without messages and /api/generate without a prompt: they load or unload a model.

The relay translates all other requests to these paths for a model server.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from hotseat.api.deps import ApiDeps, Caller, Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.ollama_bodies import body_of
from hotseat.api.ollama_models import known_model, local_model, rfc3339
from hotseat.identifiers import ClientId
from hotseat.ollama.requests import keep_alive_s
from hotseat.scheduling.events import KeepAliveChanged

if TYPE_CHECKING:
    from hotseat.activity.usage import Account
    from hotseat.catalog.spec import ModelSpec

router = APIRouter(tags=["ollama"])


class LoadRequest(msgspec.Struct):
    """As the relay writes it: clients' own requests have more members, and need not name a model."""

    model: str
    client: str = ""
    keep_alive: Any = None
    """None: the model's ttl counts."""


@router.post("/api/chat", include_in_schema=False)
async def chat(request: Request, deps: Deps, caller: Caller) -> JSONResponse:
    answer = await loaded_or_unloaded(request, deps, caller)
    return JSONResponse({**answer, "message": {"role": "assistant", "content": ""}})


@router.post("/api/generate", include_in_schema=False)
async def generate(request: Request, deps: Deps, caller: Caller) -> JSONResponse:
    return JSONResponse({**await loaded_or_unloaded(request, deps, caller), "response": ""})


async def loaded_or_unloaded(request: Request, deps: ApiDeps, caller: Account | None) -> dict[str, Any]:
    """Needs no more rights than a request: it waits its turn, cuts nobody, and evicts no pinned model."""
    asked = await body_of(request, LoadRequest)
    spec = model_to_load(asked.model, deps, caller)
    seconds = None if asked.keep_alive is None else keep_alive_s(asked.keep_alive)
    is_unload = seconds == 0
    if spec is not None and not is_unload:
        client = ClientId(asked.client)
        await unless_gone(request.receive, deps.dispatcher.operator.load_for_client(spec.name, client))
    if spec is not None and asked.keep_alive is not None:
        deps.dispatcher.tell(KeepAliveChanged(spec.name, seconds))
    done_reason = "unload" if is_unload else "load"
    return {"model": asked.model, "created_at": rfc3339(time.time()), "done": True, "done_reason": done_reason}


def model_to_load(name: str, deps: ApiDeps, caller: Account | None) -> ModelSpec | None:
    """None if it runs elsewhere: its own host loads it. Raises if it is unknown or not for this key."""
    catalog = deps.dispatcher.catalog
    named = known_model(name, catalog)
    if caller is not None:
        caller.check_may_use(named.name)
    return local_model(named, catalog)
