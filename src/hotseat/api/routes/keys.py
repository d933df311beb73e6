"""API keys: their names, rights and usage; never the keys themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from hotseat.api.deps import Deps
from hotseat.api.schemas import Key, KeyList

if TYPE_CHECKING:
    from hotseat.activity.usage import Account

router = APIRouter(prefix="/hotseat", tags=["hotseat"])


@router.get("/keys", summary="Permissions of each API key, and its usage since the start")
async def keys(deps: Deps) -> KeyList:
    return KeyList(keys=[shown(account) for account in deps.accounts()])


def shown(account: Account) -> Key:
    return Key(
        name=account.name,
        role=account.key.role.value,
        models=list(account.key.models),
        requests_per_minute=account.key.per_minute,
        concurrency_limit=account.key.concurrency,
        requests=account.requests,
        refused=account.refused,
        in_flight=account.in_flight,
        device_seconds=round(account.device_s, 3),
    )
