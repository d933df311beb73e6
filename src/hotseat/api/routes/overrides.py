"""PUT /hotseat/models/{name}/overrides: pin a model or change its ttl while hotseat runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from hotseat.api.deps import Caller, Deps
from hotseat.api.model_schemas import Configured, Overrides
from hotseat.api.routes.management import UNKNOWN
from hotseat.api.schema_base import Result
from hotseat.scheduling.events import OverridesChanged

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec

router = APIRouter(prefix="/hotseat", tags=["hotseat"])


@router.put(
    "/models/{name:path}/overrides",
    summary="Pin a model or change its ttl at run time; kept across restarts, the configuration is not written",
    responses=UNKNOWN,
)
async def override(name: str, body: Overrides, deps: Deps, caller: Caller) -> Result:
    model = deps.dispatcher.catalog.resolve(name).name
    if caller is not None:
        caller.check_may_use(model)
    deps.dispatcher.tell(OverridesChanged(model, body.pinned, body.ttl))
    if body.pinned is not None or body.ttl is not None:
        return Result(message=f"{model} differs from its configuration now, also after a restart")
    return Result(message=f"{model} follows its configuration")


def shown(spec: ModelSpec) -> Overrides | None:
    return Overrides(pinned=spec.overrides.pinned, ttl=spec.overrides.ttl_s) if spec.overrides else None


def configured(spec: ModelSpec) -> Configured | None:
    said = spec.configured
    return None if said is None else Configured(pinned=said.pinned, ttl=said.ttl_s or 0.0)
