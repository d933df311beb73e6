"""How fleet hosts authenticate to each other with a secret that none of them ever sends.

A proof is an HMAC-SHA256. While one secret replaces another, there are two: a host signs with both and accepts either,
so that hosts can switch one by one, in any order.
"""

from __future__ import annotations

import time
from binascii import hexlify
from hashlib import sha256
from hmac import compare_digest
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.errors import HostUnproven
from hotseat.identifiers import DEFAULT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hotseat.identifiers import HostName, Seconds

    Clock = Callable[[], Seconds]

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
REQUEST, RECORD, FLEET = b"hotseat request 1", b"hotseat record 1", b"hotseat fleet 1"
"""Each signed message starts with its purpose, so that a proof for one purpose is invalid for another."""


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
        return b"%b %b" % (stamp, self._secret.sign(_message(to, said, stamp)))


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
        if not self._secret.believes(_message(self._me, said, stamp), signed):
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


def _message(to: HostName, said: bytes, stamp: bytes) -> bytes:
    """Includes the receiver's name, so that a proof for one host is invalid at another."""
    return b"%b\n%b\n%b\n%b" % (REQUEST, to.encode(), said, stamp)


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
