"""How fleet hosts authenticate to each other with a secret that none of them ever sends.

They prove who sent a request, and sign the records in the store.

A proof is an HMAC-SHA256. While one secret replaces another, there are two: a host signs with both and accepts either,
so that hosts can switch one by one, in any order.
"""

from __future__ import annotations

import logging
import time
from binascii import hexlify
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.errors import HostUnproven
from hotseat.fleet.store import Bucket, Conflict, Removed, StoreError, Written
from hotseat.identifiers import DEFAULT_PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from hotseat.fleet.store import Change, Revision, Store
    from hotseat.identifiers import HostName, Seconds

    Clock = Callable[[], Seconds]

log = logging.getLogger(__name__)
BLOCK = 64
"""Block size of SHA-256, in bytes."""
MOST_SECRETS = 2
MOST_SKEW_S: Seconds = 60.0
"""The largest clock difference between two hosts, and how long somebody could replay a recorded request."""
MOST_SEEN = 50_000
"""Requests remembered to detect replays, in each of two generations: about ten megabytes. Older ones are refused."""
MOST_SIGNERS = 1000
"""Processes of other hosts within that time; with more of them, what is forgotten of one counts for all."""
MOST_SUBJECTS = 50
"""Warned of in one interval: somebody else may choose their names."""
WARN_S: Seconds = 3600.0
"""A host with another secret writes every three seconds, for days."""
REQUEST, RECORD, FLEET = b"hotseat request 1", b"hotseat record 1", b"hotseat fleet 1"
"""Each signed message starts with its purpose, so that a proof for one purpose is invalid for another."""
_BEGIN, _MIDDLE, _END = b'{"proof":"', b'","record":', b"}"


class Hmac:
    """HMAC-SHA256 (RFC 2104) with both hashes precomputed for one key: takes half the time of hmac.digest."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = (sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
        self._inner, self._outer = (sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))

    def of(self, said: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(said)
        outer.update(inner.digest())
        return hexlify(outer.digest())


class FleetSecret:
    """One secret, or two during a rotation. An empty secret never proves anything.

    Each fleet has keys of its own: what is signed in one is invalid in another with the same secret.
    """

    __slots__ = ("_keys",)

    def __init__(self, secrets: Sequence[str], prefix: str = DEFAULT_PREFIX) -> None:
        self._keys = tuple(_key(secret, prefix) for secret in secrets if secret)

    @property
    def fingerprint(self) -> bytes:
        """Equal for equal first secrets, and of no use for guessing the secret."""
        return self._keys[0].of(b"hotseat fingerprint 1")

    def sign(self, said: bytes) -> bytes:
        return b",".join([key.of(said) for key in self._keys])

    def believes(self, said: bytes, proof: bytes) -> bool:
        """Was this signed with one of our secrets? Each comparison takes constant time."""
        given = proof.split(b",", MOST_SECRETS)[:MOST_SECRETS]
        for key in self._keys:
            ours = key.of(said)
            for one in given:
                if compare_digest(one, ours):
                    return True
        return False

    def signs_alike(self, said: bytes, proof: bytes) -> bool:
        """Was it signed with all our secrets, so that it stays valid when only one of them is left?"""
        return set(self.sign(said).split(b",")) <= set(proof.split(b","))


def _key(secret: str, prefix: str) -> Hmac:
    """The secret itself by default, as in versions without prefixes."""
    key = Hmac(secret.encode())
    return key if prefix == DEFAULT_PREFIX else Hmac(key.of(b"%b\n%b" % (FLEET, prefix.encode())))


class Signer:
    """Proves to one other host that a request comes from this one: valid for that host only, briefly, and once."""

    def __init__(self, secret: FleetSecret, clock: Clock = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._start = token_hex(8).encode()
        self._numbers = count()

    def proof(self, to: HostName, said: bytes) -> bytes:
        stamp = b"%d %b-%d" % (self._clock() * 1000, self._start, next(self._numbers))
        return b"%b %b" % (stamp, self._secret.sign(_request_message(to, said, stamp)))


class ProofChecker:
    """Verifies proofs from other hosts, and accepts each once.

    The next process gets what this one has seen; after a crash it refuses what was signed before its start, and the
    other host tries again with a new proof, which it must wait for as long as its clock is late. Of one whose clock is
    early, what it signed within that time before the crash could be replayed.
    """

    def __init__(self, me: HostName, secret: FleetSecret, clock: Clock = time.time) -> None:
        self._me = me
        self._secret = secret
        self._clock = clock
        self._seen: set[bytes] = set()
        self._seen_before: set[bytes] = set()
        self._refused_before = {b"": int(clock() * 1000)}
        """What each signer signed before, in milliseconds, may be forgotten; the empty name stands for all of them."""

    def to_hand_over(self) -> list[str]:
        """The stamps that somebody could still replay. One without a number refuses all before it."""
        oldest = (self._clock() - MOST_SKEW_S) * 1000
        refused = (b"%d %b" % (at, signer) for signer, at in self._refused_before.items())
        known = (*self._seen, *self._seen_before, *refused)
        return [stamp.decode() for stamp in known if _signed_at_ms(stamp) >= oldest]

    def take(self, seen: Iterable[str]) -> None:
        """What the previous process has handed over."""
        self._refused_before = {}
        for stamp in map(str.encode, seen):
            if b"-" in stamp:
                self._seen.add(stamp)
            else:
                self._refused_before[_signer(stamp)] = _signed_at_ms(stamp)

    def check(self, host: str, said: bytes, proof: bytes) -> None:
        """Raises HostUnproven with the reason and the remedy."""
        stamp, _, signed = proof.rpartition(b" ")
        if not self._secret.believes(_request_message(self._me, said, stamp), signed):
            text = f"{host} forwarded this request to {self._me} without proof that it knows fleet.secret"
            raise HostUnproven(
                f"{text}. Give all hosts the same fleet.secret, and each host its own fleet.name and address."
            )
        apart = _signed_at_ms(stamp) / 1000 - self._clock()
        if abs(apart) > MOST_SKEW_S:
            text = (
                f"the clock of {host} differs by {apart:+.0f} s from that of {self._me}; the limit is {MOST_SKEW_S:g} s"
            )
            raise HostUnproven(f"{text}. Synchronize both with NTP.")
        refused_before = self._refused_before
        if _signed_at_ms(stamp) < max(refused_before.get(b"", 0), refused_before.get(_signer(stamp), 0)):
            text = f"{host} has signed this request before {self._me} started, or so long ago that it no longer knows"
            raise HostUnproven(f"{text} whether it has received it. Try again.")
        if stamp in self._seen or stamp in self._seen_before:
            raise HostUnproven(f"{self._me} has already received this request from {host} and rejects replays.")
        self._remember(stamp)

    def _remember(self, stamp: bytes) -> None:
        if len(self._seen) >= MOST_SEEN:
            self._forget(self._seen_before)
            self._seen, self._seen_before = set(), self._seen
        self._seen.add(stamp)

    def _forget(self, stamps: Iterable[bytes]) -> None:
        """From now on they are refused, and so is everything that their signers signed before."""
        oldest = (self._clock() - MOST_SKEW_S) * 1000
        refused = {signer: before for signer, before in self._refused_before.items() if before >= oldest}
        newest: dict[bytes, bytes] = {}
        for stamp in stamps:  # tens of thousands, and texts of equal length compare faster than they become numbers
            at, _, name = stamp.partition(b" ")
            signer = name.partition(b"-")[0]
            if at > newest.get(signer, b""):
                newest[signer] = at
        for signer, at in newest.items():
            refused[signer] = max(refused.get(signer, 0), int(at) + 1)
        self._refused_before = refused if len(refused) <= MOST_SIGNERS else {b"": max(refused.values())}


def _signed_at_ms(stamp: bytes) -> int:
    return int(stamp.partition(b" ")[0])


def _signer(stamp: bytes) -> bytes:
    """One process of a host."""
    return stamp.partition(b" ")[2].partition(b"-")[0]


def _request_message(to: HostName, said: bytes, stamp: bytes) -> bytes:
    """Includes the receiver's name, so that a proof for one host is invalid at another."""
    return b"%b\n%b\n%b\n%b" % (REQUEST, to.encode(), said, stamp)


class SignedStore:
    """A store that hides every record that no host of the fleet signed.

    Otherwise, anybody who can write to the buckets could set any address as a host's and receive its requests. A
    signature is valid for one key of one bucket. Removals are not signed: whoever can write can also remove, and the
    owner of a removed record writes it again.
    """

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
        proof = self._secret.sign(_record_message(bucket, key, value))
        return b"%b%b%b%b%b" % (_BEGIN, proof, _MIDDLE, value, _END)

    def _opened(self, bucket: Bucket, written: Written) -> Written | None:
        """The record that a host of the fleet wrote; None if the signature is invalid."""
        proof, value = _parts(written.value)
        if self._secret.believes(_record_message(bucket, written.key, value), proof):
            return Written(written.key, value, written.revision)
        key = f"{bucket.value}/{written.key}"
        if self._warnings.lets_through(key):
            hint = "give that host the same fleet.secret, or find out what else writes to NATS"
            log.warning("ignored a record without a valid signature key=%s hint=%r", key, hint)
        return None

    async def _sign_again(self, written: Written, opened: Written) -> None:
        """An order outlives secrets: during a rotation it is signed with both, so that it stays valid with one."""
        message = _record_message(Bucket.ORDERS, opened.key, opened.value)
        if not self._secret.signs_alike(message, _parts(written.value)[0]):
            with suppress(Conflict, StoreError):
                await self.replace(Bucket.ORDERS, opened.key, opened.value, opened.revision)


def _parts(value: bytes) -> tuple[bytes, bytes]:
    """The proof and the signed value; both empty if there is none."""
    proof, middle, rest = value.partition(_MIDDLE)
    if not proof.startswith(_BEGIN) or not middle or not rest.endswith(_END):
        return b"", b""
    return proof[len(_BEGIN) :], rest[: -len(_END)]


def _record_message(bucket: Bucket, key: str, value: bytes) -> bytes:
    return b"%b\n%b/%b\n%b" % (RECORD, bucket.value.encode(), key.encode(), value)


class LogLimit:
    """Lets one warning per subject and interval through; the causes may occur a thousand times a second."""

    def __init__(self, every_s: Seconds, clock: Clock = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._next: dict[str, Seconds] = {}

    def lets_through(self, about: str = "") -> bool:
        now = self._clock()
        if now < self._next.get(about, now):
            return False
        self._next = {other: then for other, then in self._next.items() if then > now}
        if len(self._next) >= MOST_SUBJECTS:
            return False
        self._next[about] = now + self._every_s
        return True
