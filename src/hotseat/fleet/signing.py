"""A store that hides every record that no host of the fleet signed.

Otherwise, anybody who can write to the buckets could set any address as a host's and receive its requests. A signature
is valid for one key of one bucket. Removals are not signed: whoever can write can also remove, and the owner of a
removed record writes it again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.fleet.host_proof import RECORD, LogLimit
from hotseat.fleet.store import Bucket, Conflict, Removed, StoreError, Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.host_proof import FleetSecret
    from hotseat.fleet.store import Change, Revision, Store
    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

WARN_S: Seconds = 3600.0
"""A host with another secret writes every three seconds, for days."""
_BEGIN, _MIDDLE, _END = b'{"proof":"', b'","record":', b"}"


class SignedStore:
    def __init__(self, store: Store, secret: FleetSecret) -> None:
        self._store = store
        self._secret = secret
        self._warnings = LogLimit(WARN_S)

    @property
    def is_connected(self) -> bool:
        return self._store.is_connected

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        """Overwrites unsigned records."""
        signed = self._signed(bucket, key, value)
        try:
            return await self._store.create(bucket, key, signed)
        except Conflict:
            found = await self._store.read(bucket, key)
            if found is None or self._opened(bucket, found) is not None:
                raise
        return await self._store.replace(bucket, key, signed, found.revision)

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        return await self._store.replace(bucket, key, self._signed(bucket, key, value), last)

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        return await self._store.put(bucket, key, self._signed(bucket, key, value))

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        await self._store.remove(bucket, key, last)

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        found = await self._store.read(bucket, key)
        return None if found is None else self._opened(bucket, found)

    async def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        async for change in self._store.watch(bucket):
            if not isinstance(change, Written):
                yield change
                continue
            opened = self._opened(bucket, change)
            yield opened or Removed(change.key, change.revision)
            if opened and bucket is Bucket.ORDERS:
                await self._sign_again(change, opened)

    async def aclose(self) -> None:
        await self._store.aclose()

    # Signatures

    def _signed(self, bucket: Bucket, key: str, value: bytes) -> bytes:
        proof = self._secret.sign(_message(bucket, key, value))
        return b"%b%b%b%b%b" % (_BEGIN, proof, _MIDDLE, value, _END)

    def _opened(self, bucket: Bucket, written: Written) -> Written | None:
        """The record that a host of the fleet wrote; None if the signature is invalid."""
        proof, value = _parts(written.value)
        if self._secret.believes(_message(bucket, written.key, value), proof):
            return Written(written.key, value, written.revision)
        key = f"{bucket.value}/{written.key}"
        if self._warnings.lets_through(key):
            hint = "give that host the same fleet.secret, or find out what else writes to NATS"
            log.warning("ignored a record without a valid signature key=%s hint=%r", key, hint)
        return None

    async def _sign_again(self, written: Written, opened: Written) -> None:
        """An order outlives secrets: during a rotation it is signed with both, so that it stays valid with one."""
        message = _message(Bucket.ORDERS, opened.key, opened.value)
        if not self._secret.signs_alike(message, _parts(written.value)[0]):
            with suppress(Conflict, StoreError):
                await self.replace(Bucket.ORDERS, opened.key, opened.value, opened.revision)


def _parts(value: bytes) -> tuple[bytes, bytes]:
    """The proof and the signed value; both empty if there is none."""
    proof, middle, rest = value.partition(_MIDDLE)
    if not proof.startswith(_BEGIN) or not middle or not rest.endswith(_END):
        return b"", b""
    return proof[len(_BEGIN) :], rest[: -len(_END)]


def _message(bucket: Bucket, key: str, value: bytes) -> bytes:
    return b"%b\n%b/%b\n%b" % (RECORD, bucket.value.encode(), key.encode(), value)
