"""How hosts agree who loads or stops a model: whoever creates the claim decides, and later hosts use that decision.

A claim is not a lock, and nobody waits for one. Without the store a host decides alone; two hosts may then load the
same model, which costs one extra load and nothing worse.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from hotseat.errors import CannotMove, FleetDisconnected
from hotseat.fleet.claim_table import Held
from hotseat.fleet.records import STOPS, Claim, decoded, encoded
from hotseat.fleet.store import Bucket, Conflict, Revision, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from hotseat.fleet.placement import Load
    from hotseat.fleet.store import Store, Written
    from hotseat.identifiers import HostName, ModelName
    from hotseat.tasks import Tasks

THIS_HOST_LEAVES = "no host can be chosen: this host leaves the fleet. Try again."


@dataclass(frozen=True, slots=True)
class Agreed:
    """The host that loads the model, and the write that decided it."""

    claim: Claim
    revision: Revision | None
    """None: decided by this host alone, without the store."""
    is_ours: bool = True


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


def key_of(model: ModelName, replica: int) -> str:
    return f"{urlsafe_b64encode(model.encode(errors='surrogatepass')).decode().rstrip('=')}.{replica}"


class ClaimsInProgress:
    """One claim at a time for each replica of a model: whoever needs it meanwhile waits for its result.

    Otherwise, each of a hundred requests for a model that no host has would ask the store.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[Agreed]] = {}
        """By the claim's key."""

    async def agreed(self, key: str, claim: Callable[[], Coroutine[Any, Any, Agreed]]) -> Agreed:
        """The result of the claim in progress, else of a new one."""
        if running := self._running.get(key):
            return replace(await _result(running), is_ours=False)
        return await _result(self._start(key, claim))

    def _start(self, key: str, claim: Callable[[], Coroutine[Any, Any, Agreed]]) -> asyncio.Task[Agreed]:
        task = self._running[key] = self._tasks.start(claim(), f"claim {key}")
        task.add_done_callback(lambda _: self._running.pop(key))
        return task


async def _result(task: asyncio.Task[Agreed]) -> Agreed:
    """A caller that is cancelled ends its own wait and not the claim, for which others may wait."""
    await asyncio.wait([task])
    if task.cancelled():
        raise FleetDisconnected(THIS_HOST_LEAVES)
    return task.result()


@asynccontextmanager
async def right_to_stop(store: Store, model: ModelName, stays_on: HostName, me: HostName) -> AsyncIterator[None]:
    """Inside the block nobody else stops a replica of the model for a move. It ends with the lease, if we die.

    Otherwise, two moves that end together could stop each other's result.
    """
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
