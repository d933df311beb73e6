"""Our own keys, where the configuration asks for them: who holds one, which role it has, which header carried it.

What a role may do is in paths.py. Without configured keys all pass and nothing is touched, because then credentials
are the upstream's matter.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from hotseat.activity.usage import HELD
from hotseat.errors import Forbidden, Unauthorized
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.activity.usage import Account

RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who asks. Headers that carried our key must not reach an upstream; other credentials pass."""

    remove_authorization: bool = False
    remove_x_api_key: bool = False
    role: Role | None = field(default=None, compare=False)
    """What the caller may do; None: there are no keys, or this caller has none."""
    holder: str = field(default="", compare=False)
    """Which key it was, by a name that does not give it away."""
    account: Account | None = field(default=None, compare=False)
    """What that key may use; None where there are no keys, and then nothing is counted."""
    from_host: str = ""
    """The host of the fleet that passed it on; empty where a client asks."""


UNTOUCHED = Verdict()


class Keys:
    """One place decides who somebody is, for every route and every way to send a key."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = accounts

    def identify(self, authorization: bytes | None, x_api_key: bytes | None) -> Verdict:
        """Whose keys were sent. Of two keys of ours the one that may do more counts."""
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
        """Raises 401 where keys are configured and the caller has none of them."""
        if self._accounts and verdict.role is None:
            raise Unauthorized(
                "a valid API key is required: send it as `Authorization: Bearer <key>` or as `x-api-key: <key>`"
            )

    def check_role(self, verdict: Verdict, needed: Role | None) -> None:
        """Raises 403 where the caller's role is too low for what would be forwarded."""
        if needed is None or (verdict.role is None and not self._accounts):
            return
        if verdict.role is None or RANK[verdict.role] < RANK[needed]:
            raise Forbidden(f"this requires an API key with the role {needed.value}; ask your administrator")

    def _account_of(self, secret: bytes | None) -> Account | None:
        """None for an unknown key, and for an empty one whatever is configured: nothing empty ever opens anything."""
        secret = secret.strip() if secret else b""
        if not secret:
            return None
        presented, found = _digest(secret), None
        for account in self._accounts:  # all of them: stopping at the right one would tell which it is
            if compare_digest(account.digest, presented):
                found = account
        return found


def line_about_key(verdict: Verdict) -> bytes:
    """What hotseat's own API is told of who asks: it shows each holder what is theirs."""
    account = verdict.account
    return b"" if account is None else f"{HELD}: {account.digest.hex()}\r\n".encode()


def _secret_in(authorization: bytes | None) -> bytes | None:
    scheme, _, credential = (authorization or b"").strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return credential.strip()
    if scheme.lower() == b"basic":
        return _password_in(credential.strip())
    return None


def _password_in(credential: bytes) -> bytes | None:
    try:
        return b64decode(credential, validate=True).partition(b":")[2]
    except binascii.Error:
        return None


def _digest(secret: bytes) -> bytes:
    """Equal lengths, so that comparing tells nothing about a key's length."""
    return sha256(secret).digest()
