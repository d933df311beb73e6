"""What each API key may use and has used: requests, tokens, and device time.

Counted only if keys are configured. A reload changes the limits and keeps the counts.
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING

from hotseat.activity.budgets import Budgets
from hotseat.errors import Forbidden, OverLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.activity.budgets import UsedToday
    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.settings import ApiKey

SHOWN = 8
"""Hexadecimal digits of a key's digest: enough to tell keys apart, not enough to guess one."""
HELD = "hotseat-key"
"""Header that tells the management API, by digest, which key a request used."""
SIGNED_IN = "hotseat-user"
"""Header that tells it who has signed in at a proxy instead, percent-encoded."""


class Meter:
    """Divides a model's time among the requests it serves concurrently.

    `_served` is the charge of a request that was there from the beginning; a request costs the increase while it runs.
    The sum of all charges is the time for which the model was in use.
    """

    __slots__ = ("_at", "_served", "_users")

    def __init__(self) -> None:
        self._users = 0
        self._served: Seconds = 0.0
        self._at: Instant = 0.0

    def enter(self, now: Instant) -> Seconds:
        self._advance(now)
        self._users += 1
        return self._served

    def leave(self, since: Seconds, now: Instant) -> Seconds:
        """The charge of a request whose `enter` returned `since`."""
        self._advance(now)
        self._users -= 1
        return self._served - since

    def _advance(self, now: Instant) -> None:
        if self._users:
            self._served += (now - self._at) / self._users
        self._at = now


class Account:
    """The limits and counts of one key."""

    def __init__(self, digest: bytes, key: ApiKey, budgets: Budgets) -> None:
        self.digest = digest
        self.budgets = budgets
        self.requests = 0
        self.refused = 0
        """By its limits."""
        self.in_flight = 0
        """Waiting or being served."""
        self.device_s: Seconds = 0.0
        self.renew(key)

    def renew(self, key: ApiKey) -> None:
        """Apply the current configuration; counts stay."""
        self.key = key
        self.name = key.name or f"key {self.digest.hex()[:SHOWN]}"
        self.models = frozenset(key.models)
        self.budgets.renew(key, self.name)

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models

    def check_may_use(self, model: str) -> None:
        """Raises if the key is for other models."""
        if not self.may_use(model):
            raise Forbidden(f'this API key may not use the model "{model}"; ask your administrator')

    def check_may_act_on_all(self) -> None:
        """Raises if the key is for some models only."""
        if self.models:
            raise Forbidden("this affects all models, but this API key is limited to some; use a key without `models`")

    def enter(self, model: str) -> KeyUse:
        """Admit a request, or raise if the key does not allow it."""
        self.check_may_use(model)
        key_use = self.admit()
        key_use.model = model
        return key_use

    def admit(self) -> KeyUse:
        """Like `enter` before the model is known: counts the request before its body is read."""
        try:
            self._check_limits()
        except OverLimit:
            self.refused += 1
            raise
        self.requests += 1
        self.in_flight += 1
        return KeyUse(self)

    def _check_limits(self) -> None:
        most = self.key.concurrency
        if most is not None and self.in_flight >= most:
            requests = "1 request" if most == 1 else f"{most} requests"
            raise OverLimit(f"this API key is limited to {requests} at a time", retry_after=1)
        self.budgets.take_request()


class KeyUse:
    """One request of an account, from admission to its end."""

    __slots__ = ("_devices", "_is_over", "_meter", "_since", "account", "model")

    def __init__(self, account: Account) -> None:
        self.account = account
        self.model = ""
        """As requested; empty until known."""
        self._is_over = False
        self._meter: Meter | None = None
        self._since: Seconds = 0.0
        self._devices = 1

    def granted(self, meter: Meter, devices: int, now: Instant) -> None:
        """Its service starts. Time on an earlier server that died counts too."""
        self._charge(now)
        self._meter, self._since, self._devices = meter, meter.enter(now), devices

    def ended(self, now: Instant, tokens: Tokens | None = None, estimated: int = 0) -> None:
        """With the tokens that were reported and an estimate of the others. Safe to call twice."""
        if not self._is_over:
            self._is_over = True
            self.account.in_flight -= 1
            self._charge(now)
            if tokens is not None or estimated:
                self.account.budgets.spend(tokens, estimated)

    def _charge(self, now: Instant) -> None:
        meter, self._meter = self._meter, None
        if meter is not None:
            self.account.device_s += meter.leave(self._since, now) * self._devices


class Accounts:
    """All accounts, by the digest of the key, and the meters of the models."""

    def __init__(self, used_today: UsedToday = lambda *_: 0, wall_clock: Callable[[], float] = time.time) -> None:
        self._used_today, self._wall_clock = used_today, wall_clock
        self._by_digest: dict[bytes, Account] = {}
        self._meters: dict[ModelName, Meter] = {}

    def open(self, keys: Iterable[ApiKey]) -> list[Account]:
        """The accounts of the configured keys; accounts of other keys are dropped."""
        before, self._by_digest = self._by_digest, {}
        for key in keys:
            digest = digest_of(key)
            if digest in before:
                before[digest].renew(key)
            budgets = Budgets(self._used_today, self._wall_clock)
            self._by_digest[digest] = before.get(digest) or Account(digest, key, budgets)
        return self.all()

    def replace_digest(self, before: bytes, after: bytes) -> None:
        """A key has another secret: its account stays, and so do the requests in progress that belong to it."""
        if (account := self._by_digest.pop(before, None)) is not None:
            account.digest = after
            self._by_digest[after] = account

    def all(self) -> list[Account]:
        return list(self._by_digest.values())

    def catch_up(self) -> None:
        """After the end of the process that this one has replaced."""
        for account in self._by_digest.values():
            account.budgets.catch_up(account.name)

    def meter(self, model: ModelName) -> Meter:
        return self._meters.setdefault(model, Meter())


def digest_of(key: ApiKey) -> bytes:
    return bytes.fromhex(key.hashed) if key.hashed else sha256(key.secret.encode()).digest()
