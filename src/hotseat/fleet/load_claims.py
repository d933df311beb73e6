"""How hosts agree on who loads what: whoever creates the claim has decided, whoever comes second goes there too.

A claim is no lock and nobody waits for one. Without the store a host does as it decided alone: then two may load the
same model, which is one load too many and nothing worse.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
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
    """Who loads the model, and by which write that was decided."""

    claim: Claim
    revision: Revision | None
    """None: by this host alone, without the store."""


def key_of(model: ModelName, replica: int) -> str:
    return f"{urlsafe_b64encode(model.encode(errors='surrogatepass')).decode().rstrip('=')}.{replica}"


async def claim(store: Store, decision: Load, me: HostName, *, unasked: bool = False) -> Agreed:
    """What this host decided, or what somebody else had decided before. Never raises for the store."""
    ours = Claim(decision.model, decision.host, me, decision.because, decision.replica, unasked)
    key = key_of(decision.model, decision.replica)
    try:
        # Whoever was first may be done already: then there is nothing to read, and the way is free.
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
    return Agreed(decoded(written.value, Claim), written.revision)


async def release(store: Store, held: Held) -> None:
    """Take back a claim whose model is seen; if that fails, its lease ends by itself."""
    with suppress(Conflict, StoreError):
        await store.remove(Bucket.CLAIMS, held.key, held.revision)
