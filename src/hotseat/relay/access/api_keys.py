"""Our own API keys, if configured: who holds one, its role, which header carried it.

paths.py defines what a role may do. Without configured keys all requests pass unchanged, because credentials then
concern only the upstream.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import quote

from hotseat.activity.usage import HELD, SIGNED_IN
from hotseat.errors import Forbidden, Unauthorized
from hotseat.fleet.host_headers import FROM_HOST
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.activity.usage import Account

RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Identifies the caller. Headers that carried our key must not reach an upstream; other credentials pass."""

    remove_authorization: bool = False
    remove_x_api_key: bool = False
    role: Role | None = field(default=None, compare=False)
    """The caller's role; None: no keys are configured, or the caller sent none of them."""
    holder: str = field(default="", compare=False)
    """The name of the key, which does not reveal it; `user:` and the name of a user, `host` and that of a host."""
    account: Account | None = field(default=None, compare=False)
    """What that key may use; None without configured keys: then nothing is counted."""
    from_host: str = ""
    """The fleet host that forwarded the request; empty for a client's own request."""
    user: str = field(default="", compare=False)
    """Who has signed in at a proxy; empty for the holder of a key."""

    @property
    def is_anonymous(self) -> bool:
        return self.role is None

    def is_privileged(self, needed: Role | None) -> bool:
        """Is it an operator or an administrator? Of a caller without a role, the role that the path needs decides."""
        return (self.role or needed) in (Role.OPERATE, Role.ADMIN)


UNTOUCHED = Verdict()


class Keys:
    """The one place that identifies callers, for every route and every way to send a key."""

    def __init__(self, accounts: Sequence[Account], *, is_required: bool) -> None:
        """`is_required`: whoever has none of these keys must have signed in."""
        self._accounts, self._is_required = accounts, is_required

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
        """Raises 401 if a key is required and the caller sent none of them."""
        if self._is_required and verdict.role is None:
            raise Unauthorized(
                "a valid API key is required: send it as `Authorization: Bearer <key>` or as `x-api-key: <key>`"
            )

    def check_role(self, verdict: Verdict, needed: Role | None) -> None:
        """Raises 403 if the caller's role is too low for what would be forwarded."""
        if needed is None or (verdict.role is None and not self._is_required):
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
    """Tells hotseat's own API who the caller is: a host, a user, or a key, whose models limit what it may do."""
    if verdict.from_host:
        return b"%b: %b\r\n" % (FROM_HOST, verdict.from_host.encode("latin-1"))
    if verdict.user:
        return f"{SIGNED_IN}: {quote(verdict.user, encoding='latin-1')}\r\n".encode()
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
