"""Our own keys, where the configuration asks for them: who holds one, what it opens, which header carried it.

One function decides for every route and every way to send a key. Without configured keys it lets all pass and
touches nothing, because then credentials are the upstream's matter.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from hotseat.accounts import HELD
from hotseat.errors import Forbidden, Unauthorized
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.accounts import Account

RANK = {role: rank for rank, role in enumerate(Role)}
READING = (b"GET", b"HEAD")
OPEN_TO_ALL = (b"/health", b"/hotseat/ready")
"""What load balancers ask, who rarely have a key."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Let in. Headers that carried our key must not reach an upstream; other credentials pass."""

    remove_authorization: bool = False
    remove_x_api_key: bool = False
    holder: str = field(default="", compare=False)
    """Which key it was, by a name that does not give it away."""
    account: Account | None = field(default=None, compare=False)
    """What that key may use; None where there are no keys, and then nothing is counted."""
    is_action: bool = field(default=False, compare=False)
    """Does it change something in the house? That is written down."""
    from_host: str = ""
    """The host of the fleet that passed it on; empty where a client asks."""


UNTOUCHED = Verdict()
UNTOUCHED_ACTION = Verdict(is_action=True)


class Keys:
    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = accounts

    def authorize(self, method: bytes, path: bytes, authorization: bytes | None, x_api_key: bytes | None) -> Verdict:
        """Returns for those whose key opens this path; raises 401 without a known key and 403 for too low a role."""
        path = path.partition(b"?")[0]
        needed = role_needed(method, path)
        is_action = changes_something(method, path, needed)
        if not self._accounts:
            return UNTOUCHED_ACTION if is_action else UNTOUCHED
        by_authorization, by_x_api_key = self._account_of(_secret_in(authorization)), self._account_of(x_api_key)
        if needed is not None:
            _check_role(needed, by_authorization, by_x_api_key)
        verdict = Verdict(by_authorization is not None, by_x_api_key is not None, is_action=is_action)
        account = by_authorization or by_x_api_key
        return verdict if account is None else replace(verdict, holder=account.name, account=account)

    def _account_of(self, secret: bytes | None) -> Account | None:
        if secret is None:
            return None
        presented, found = _digest(secret.strip()), None
        for account in self._accounts:  # all of them: stopping at the right one would tell which it is
            if compare_digest(account.digest, presented):
                found = account
        return found


def line_about_key(verdict: Verdict) -> bytes:
    """What hotseat's own API is told of who asks: it shows each holder what is theirs."""
    account = verdict.account
    return b"" if account is None else f"{HELD}: {account.digest.hex()}\r\n".encode()


def role_needed(method: bytes, path: bytes) -> Role | None:
    """The lowest role that may ask this; None where nobody is asked for a key."""
    reads = method in READING
    if path in OPEN_TO_ALL and reads:  # with other methods /health is the upstream's, and may start one
        return None
    if path.startswith(b"/hotseat/"):
        return Role.OPERATE if reads or _OPERATING.fullmatch(path) else Role.ADMIN
    if path == b"/metrics" or (path.startswith(b"/upstream/") and _loads_or_unloads(method, path)):
        return Role.OPERATE
    if not reads and _changes_a_server(path):
        return Role.OPERATE
    return Role.INFERENCE


def changes_something(method: bytes, path: bytes, needed: Role | None) -> bool:
    """Is this what an operator does, rather than what one looks at? A load is a GET, by the contract."""
    if needed is not Role.OPERATE and needed is not Role.ADMIN:
        return False
    return method not in READING or path.startswith(b"/upstream/")


def _loads_or_unloads(method: bytes, path: bytes) -> bool:
    return method == b"DELETE" or path.endswith(b"/load")


_OPERATING = re.compile(rb"/hotseat/(?:reload|yield|profiles(?:/.*)?|requests/.*|fleet/.*)")
_SERVER_STATE = re.compile(rb"/(?:slots|props)(?:/|\Z)")


def _changes_a_server(path: bytes) -> bool:
    """Model servers decode a path before they route it, so the decoded form counts."""
    return _SERVER_STATE.search(unquote_to_bytes(path)) is not None


def _check_role(needed: Role, *held: Account | None) -> None:
    ranks = [RANK[account.key.role] for account in held if account is not None]
    if not ranks:
        raise Unauthorized(
            "a known API key is needed: send it as `Authorization: Bearer <key>` or as `x-api-key: <key>`"
        )
    if max(ranks) < RANK[needed]:
        raise Forbidden(f"this needs an API key with the role {needed.value}; ask whoever keeps the configuration")


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
