"""How hosts agree who loads a model: whoever creates the claim decides, and later hosts use that decision.

A claim is not a lock, and nobody waits for one. Without the store a host decides alone; two hosts may then load the
same model, which costs one extra load and nothing worse.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.fleet.records import Claim, decoded, encoded
from hotseat.fleet.store import Bucket, Conflict, Revision, StoreError

if TYPE_CHECKING:
    from hotseat.fleet.claim_table import Held
    from hotseat.fleet.placement import Load
    from hotseat.fleet.store import Store, Written
    from hotseat.identifiers import HostName, ModelName


@dataclass(frozen=True, slots=True)
class Agreed:
    """The host that loads the model, and the write that decided it."""

    claim: Claim
    revision: Revision | None
    """None: decided by this host alone, without the store."""
    is_ours: bool = True


def key_of(model: ModelName, replica: int) -> str:
    return f"{urlsafe_b64encode(model.encode(errors='surrogatepass')).decode().rstrip('=')}.{replica}"


async def claim(store: Store, decision: Load, me: HostName, *, unasked: bool = False) -> Agreed:
    """This host's decision, or an earlier one by another host. Never raises for store errors."""
    ours = Claim(decision.model, decision.host, me, decision.reason, decision.replica, unasked, token_hex(8))
    key = key_of(decision.model, decision.replica)
    try:
        # The other claim may have ended before it is read: then try to create ours again.
        for _ in range(2):
            try:
                return Agreed(ours, await store.create(Bucket.CLAIMS, key, encoded(ours)))
            except Conflict:
                written = await store.read(Bucket.CLAIMS, key)
                if written:
                    return _theirs(written)
    except (StoreError, ValueError):
        pass
    return Agreed(ours, None)


def _theirs(written: Written) -> Agreed:
    return Agreed(decoded(written.value, Claim), written.revision, is_ours=False)


async def release(store: Store, held: Held) -> None:
    """Withdraw a claim once its model is visible in a record; if that fails, its lease expires."""
    with suppress(Conflict, StoreError):
        await store.remove(Bucket.CLAIMS, held.key, held.revision)
