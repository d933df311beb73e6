"""API keys: their names, rights and usage; and the commands that create, rotate and revoke them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field

from hotseat.api.deps import FOR_ALL_MODELS, ApiDeps, Caller, Deps, Sender
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import ClientError, Forbidden, KeyConflict, Unauthorized
from hotseat.settings import BATCH, ApiKey, Budget, Role
from hotseat.state.key_file import NAME

if TYPE_CHECKING:
    from hotseat.activity.usage import Account
    from hotseat.api.routes.management import Responses

router = APIRouter(prefix="/hotseat/keys", tags=["hotseat"])

CONFLICT: Responses = {409: {"model": Failure, "description": "The keys do not allow this change; see the message."}}
UNKNOWN: Responses = {404: {"model": Failure, "description": "No key has this name."}}
NOT_STORED: Responses = {503: {"model": Failure, "description": "The change could not be stored; nothing changed."}}
FORBIDDEN: Responses = {403: {"model": Failure, "description": "The caller may not manage keys."}}
NewName = Annotated[str, Path(pattern=f"^{NAME}$", description="Letters, digits and ._@+-, at most 64.")]
WITHOUT_KEYS = (
    "without API keys only the user who runs hotseat can create the first one: run `hotseat keys create NAME --role"
    " admin` as that user, on the same machine and with the same state directory"
)


class Key(Schema):
    name: Annotated[str, Field(description="Configured name, or the first digits of the digest.")]
    role: Literal["inference", "operate", "admin"]
    source: Annotated[
        Literal["configuration", "created"], Field(description="In `apiKeys`, or created with `hotseat keys`.")
    ]
    models: Annotated[list[str], Field(description="Models the key may use; empty: all.")]
    requests_limit: Annotated[str | None, Field(description="As configured, such as 100/min; null: no limit.")]
    tokens_limit: Annotated[str | None, Field(description="As configured, such as 2M/day; null: no limit.")]
    concurrency_limit: Annotated[int | None, Field(description="null: no limit.")]
    priority: Literal["interactive", "batch"]
    requests: Annotated[int, Field(description="Requests to models since the start of hotseat.")]
    refused: Annotated[int, Field(description="Requests refused because of its limits.")]
    in_flight: Annotated[int, Field(description="Requests waiting or being served.")]
    device_seconds: Annotated[float, Field(description="Device time used; concurrent requests share the time.")]


class KeyList(Schema):
    keys: list[Key]


class NewKey(Schema):
    # Of a request's body: pydantic warns if the schema of a body is built later.
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=False)

    role: Literal["inference", "operate", "admin"] = "inference"
    models: Annotated[
        tuple[str, ...],
        Field(strict=False, max_length=1000, fail_fast=True, description="Models the key may use; empty: all."),
    ] = ()
    requests: Annotated[str | None, Field(description="Such as 100/min; null: no limit.")] = None
    tokens: Annotated[str | None, Field(description="Such as 2M/day; null: no limit.")] = None
    concurrency_limit: Annotated[int | None, Field(ge=1, description="null: no limit.")] = None
    priority: Literal["interactive", "batch"] = "interactive"
    proof: Annotated[
        str, Field(description="For the first key only: what `hotseat keys create` wrote to the state directory.")
    ] = ""


class KeySecret(Result):
    name: str
    secret: Annotated[str, Field(description="What clients send; it cannot be shown again.")]


@router.get("", summary="Permissions of each API key, and its usage since the start", response_model=KeyList)
async def keys(deps: Deps) -> Listing:
    created, accounts = deps.keys.names(), [*deps.accounts()]
    return Listing(page(KeyList(keys=[]), keys=rows(shown(each, each.name in created) for each in accounts)))


@router.post(
    "/{name}",
    summary="Create an API key; its secret is in this answer only",
    responses={**FORBIDDEN, **CONFLICT, **NOT_STORED},
    dependencies=[FOR_ALL_MODELS],
)
async def create(name: NewName, body: NewKey, deps: Deps, sender: Sender, caller: Caller) -> KeySecret:
    if sender is None:
        check_first(body, deps)
    models = tuple(deps.dispatcher.catalog.follow(model).name for model in body.models)
    requests, tokens = _budget(body.requests), _budget(body.tokens)
    is_batch = body.priority == BATCH
    key = ApiKey("", Role(body.role), name, "", models, requests, tokens, body.concurrency_limit, is_batch)
    secret = await deps.keys.create(key, partial(check_again, deps, sender, caller))
    turned_on = "; from now on every client needs a key" if sender is None else ""
    return KeySecret(message=f"the key {name} was created{turned_on}", name=name, secret=secret)


@router.post(
    "/{name}/rotate",
    summary="Give an API key a new secret, which is in this answer only; the old one is invalid at once",
    responses={**UNKNOWN, **FORBIDDEN, **CONFLICT, **NOT_STORED},
    dependencies=[FOR_ALL_MODELS],
)
async def rotate(name: str, deps: Deps, sender: Sender, caller: Caller) -> KeySecret:
    if sender is None:
        raise Forbidden(WITHOUT_KEYS)
    secret = await deps.keys.rotate(name, partial(check_again, deps, sender, caller))
    return KeySecret(message=f"the key {name} has a new secret", name=name, secret=secret)


@router.delete(
    "/{name}",
    summary="Revoke an API key and end its requests in progress",
    responses={**UNKNOWN, **FORBIDDEN, **CONFLICT, **NOT_STORED},
    dependencies=[FOR_ALL_MODELS],
)
async def revoke(name: str, deps: Deps, sender: Sender, caller: Caller) -> Result:
    if sender is None:
        raise Forbidden(WITHOUT_KEYS)
    if caller is not None and name == caller.name:
        raise KeyConflict(f"the key {name} cannot revoke itself; use another key with the role admin")
    await deps.keys.revoke(name, partial(check_again, deps, sender, caller))
    return Result(message=f"the key {name} was revoked")


def _budget(written: str | None) -> Budget | None:
    try:
        return None if written is None else Budget.of(written)
    except ValueError as problem:
        raise ClientError(f"a budget {problem}") from None


def check_again(deps: ApiDeps, sender: str | None, caller: Account | None) -> None:
    """Another change may have come before this one: the caller's key was revoked, or somebody created the first key."""
    if caller is not None and caller not in deps.accounts():
        raise Unauthorized("this API key was revoked meanwhile, and nothing was changed")
    if sender is None and deps.accounts():
        raise KeyConflict("another key was created meanwhile; use one with the role admin")


def check_first(body: NewKey, deps: ApiDeps) -> None:
    """Whoever holds the first key decides about everything, and must be able to create the others."""
    if not deps.keys.is_proven(body.proof):
        raise Forbidden(WITHOUT_KEYS)
    if body.role != Role.ADMIN.value or body.models:
        raise KeyConflict("the first key must have the role admin and no list of models: it has to create the others")


def shown(account: Account, is_created: bool) -> Key:
    return Key(
        name=account.name,
        role=account.key.role.value,
        source="created" if is_created else "configuration",
        models=list(account.key.models),
        requests_limit=str(account.key.requests) if account.key.requests else None,
        tokens_limit=str(account.key.tokens) if account.key.tokens else None,
        concurrency_limit=account.key.concurrency,
        priority=account.key.priority,
        requests=account.requests,
        refused=account.refused,
        in_flight=account.in_flight,
        device_seconds=round(account.device_s, 3),
    )
