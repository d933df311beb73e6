"""Our own API keys, if configured: who holds one, its role, which header carried it; and how often one was wrong.

paths.py defines what a role may do. Without configured keys all requests pass unchanged, because credentials then
concern only the upstream.
"""

from __future__ import annotations

import binascii
import logging
from base64 import b64decode
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from ipaddress import IPv6Address, ip_network
from typing import TYPE_CHECKING

from hotseat.activity.usage import HELD
from hotseat.errors import Forbidden, ForeignHost, HostUnproven, TooManyWrongKeys, Unauthorized
from hotseat.fleet.host_headers import FROM_HOST, PROOF
from hotseat.relay.access.authority import ip_of
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.activity.usage import Account
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.http.request_head import RequestHead

log = logging.getLogger(__name__)

RANK = {role: rank for rank, role in enumerate(Role)}
MOST_WRONG = 20
"""Wrong keys from one address in a minute before it gets 429."""
MINUTE: Seconds = 60.0
MOST_ADDRESSES = 1024
"""Counted separately; all further addresses in the same minute share one counter."""
THE_REST = "other addresses"
NETWORK_BITS = 64
"""Of an IPv6 address: whoever has one has the whole network."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Identifies the caller. Headers that carried our key must not reach an upstream; other credentials pass."""

    remove_authorization: bool = False
    remove_x_api_key: bool = False
    role: Role | None = field(default=None, compare=False)
    """The caller's role; None: no keys are configured, or the caller sent none of them."""
    holder: str = field(default="", compare=False)
    """The name of the key, which does not reveal it."""
    account: Account | None = field(default=None, compare=False)
    """What that key may use; None without configured keys: then nothing is counted."""
    from_host: str = ""
    """The fleet host that forwarded the request; empty for a client's own request."""


UNTOUCHED = Verdict()


class Keys:
    """The one place that identifies callers, for every route and every way to send a key."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = accounts

    def identify(self, authorization: bytes | None, x_api_key: bytes | None) -> Verdict:
        """The owner of the keys sent. If both headers carry a key of ours, the higher role counts."""
        if not self._accounts:
            return UNTOUCHED
        by_authorization, by_x_api_key = self._account_of(_secret_in(authorization)), self._account_of(x_api_key)
        held = [account for account in (by_authorization, by_x_api_key) if account is not None]
        verdict = Verdict(by_authorization is not None, by_x_api_key is not None)
        if not held:
            return verdict
        account = max(held, key=lambda account: RANK[account.key.role])
        return replace(verdict, role=account.key.role, holder=account.name, account=account)

    def check_known(self, verdict: Verdict) -> None:
        """Raises 401 if keys are configured and the caller sent none of them."""
        if self._accounts and verdict.role is None:
            raise Unauthorized(
                "a valid API key is required: send it as `Authorization: Bearer <key>` or as `x-api-key: <key>`"
            )

    def check_role(self, verdict: Verdict, needed: Role | None) -> None:
        """Raises 403 if the caller's role is too low for what would be forwarded."""
        if needed is None or (verdict.role is None and not self._accounts):
            return
        if verdict.role is None or RANK[verdict.role] < RANK[needed]:
            raise Forbidden(f"this requires an API key with the role {needed.value}; ask your administrator")

    def _account_of(self, secret: bytes | None) -> Account | None:
        """None for an unknown key, and always for an empty one, whatever is configured."""
        secret = secret.strip() if secret else b""
        if not secret:
            return None
        # Digests have equal lengths, so a comparison reveals nothing about a key's length.
        presented, found = sha256(secret).digest(), None
        for account in self._accounts:  # no early exit, since the duration would reveal which key matched
            if compare_digest(account.digest, presented):
                found = account
        return found


def line_about_caller(verdict: Verdict) -> bytes:
    """Tells hotseat's own API who the caller is: a host, or a key, whose models limit what it may do."""
    if verdict.from_host:
        return b"%b: %b\r\n" % (FROM_HOST, verdict.from_host.encode("latin-1"))
    account = verdict.account
    return b"" if account is None else f"{HELD}: {account.digest.hex()}\r\n".encode()


def _secret_in(authorization: bytes | None) -> bytes | None:
    scheme, _, credential = (authorization or b"").strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return credential.strip()
    if scheme.lower() == b"basic":
        with suppress(binascii.Error):
            return b64decode(credential.strip(), validate=True).partition(b":")[2]
    return None


class WrongKeys:
    """Counts wrong keys per address: too many get 429 and a log entry.

    Only refused requests get here, so a valid key is never slowed down, even from an address that also guesses.
    A minute begins with the first wrong key; without wrong keys there is no state, not even a timer.
    """

    def __init__(self, now: Callable[[], Instant], later: Callable[[Seconds, Callable[[], None]], object]) -> None:
        self._now, self._later = now, later
        self._counts: Counter[str] = Counter()
        self._ends_at: Instant = 0.0

    def answer(self, error: HotseatError, head: RequestHead, peer: str) -> HotseatError:
        """The original error, or 429 if this address sent too many."""
        if not _is_guess(error, head):
            return error
        if self._count(counted_as(peer)) <= MOST_WRONG or isinstance(error, HostUnproven):
            return error  # a host with an invalid proof must learn that, so that it tries another host
        return TooManyWrongKeys(
            "too many invalid API keys from this address; a valid key is still accepted",
            retry_after=max(1.0, self._ends_at - self._now()),
        )

    def _count(self, address: str) -> int:
        if not self._counts:
            self._ends_at = self._now() + MINUTE
            self._later(MINUTE, self.end_minute)
        if address not in self._counts and len(self._counts) >= MOST_ADDRESSES:
            address = THE_REST
        self._counts[address] += 1
        return self._counts[address]

    def end_minute(self) -> None:
        """Log each address that sent wrong keys, and reset."""
        counts, self._counts = self._counts, Counter()
        for address, count in counts.items():
            log.warning("invalid API keys were sent address=%s count=%d window_s=%d", address, count, MINUTE)


def counted_as(peer: str) -> str:
    """The address, or its network for IPv6, where a single machine has many."""
    address = ip_of(peer)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, NETWORK_BITS), strict=False))
    return peer if address is None else str(address)


def _is_guess(error: HotseatError, head: RequestHead) -> bool:
    """A request without a key is not a guess: browsers try that first."""
    known = head.known
    if isinstance(error, Unauthorized | ForeignHost):
        return b"authorization" in known or b"x-api-key" in known
    return isinstance(error, HostUnproven) and PROOF in known
