"""How hosts agree who stops a surplus replica: two moves that end together must not stop each other's result."""

from __future__ import annotations

from contextlib import asynccontextmanager
from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.errors import CannotMove, FleetDisconnected
from hotseat.fleet.claim_table import Held
from hotseat.fleet.load_claims import key_of, release
from hotseat.fleet.records import STOPS, Claim, encoded
from hotseat.fleet.store import Bucket, Conflict, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.store import Store
    from hotseat.identifiers import HostName, ModelName


@asynccontextmanager
async def right_to_stop(store: Store, model: ModelName, stays_on: HostName, me: HostName) -> AsyncIterator[None]:
    """Inside the block nobody else stops a replica of the model for a move. It ends with the lease, if we die."""
    ours = Claim(model, stays_on, me, "it stays here", STOPS, id=token_hex(8))
    key, said = key_of(model, STOPS), f"{model} is ready on {stays_on} and was not stopped elsewhere"
    try:
        revision = await store.create(Bucket.CLAIMS, key, encoded(ours))
    except Conflict:
        raise CannotMove(f"{said}: another move of it ends now. Try again in a moment.") from None
    except StoreError as problem:
        raise FleetDisconnected(f"{said}: {problem}. Try again when NATS is back.") from problem
    try:
        yield
    finally:
        await release(store, Held(key, ours, revision, 0.0))
