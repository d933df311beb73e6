"""What each API key may use and has used: requests, and device time.

Counted only if keys are configured. A reload changes the limits and keeps the counts.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from hotseat.errors import Forbidden, OverLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.settings import ApiKey

SHOWN = 8
"""Hexadecimal digits of a key's digest: enough to tell keys apart, not enough to guess one."""
MINUTE: Seconds = 60.0
HELD = "hotseat-key"
"""Header that tells the management API, by digest, which key a request used."""


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

    def __init__(self, digest: bytes, key: ApiKey) -> None:
        self.digest = digest
        self.requests = 0
        self.refused = 0
        """By its limits."""
        self.in_flight = 0
        """Waiting or being served."""
        self.device_s: Seconds = 0.0
        self._filled_at: Instant = 0.0
        self.renew(key)
        self._left = float(self.key.per_minute or 0)

    def renew(self, key: ApiKey) -> None:
        """Apply the current configuration; counts stay."""
        self.key = key
        self.name = key.name or f"key {self.digest.hex()[:SHOWN]}"
        self.models = frozenset(key.models)

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

    def enter(self, model: str, now: Instant) -> KeyUse:
        """Admit a request, or raise if the key does not allow it."""
        self.check_may_use(model)
        key_use = self.admit(now)
        key_use.model = model
        return key_use

    def admit(self, now: Instant) -> KeyUse:
        """Like `enter` before the model is known: counts the request before its body is read."""
        self._check_limits(now)
        self.requests += 1
        self.in_flight += 1
        return KeyUse(self)

    def _check_limits(self, now: Instant) -> None:
        most = self.key.concurrency
        if most is not None and self.in_flight >= most:
            self.refused += 1
            raise OverLimit(f"concurrency limit: {most} at a time", retry_after=1)
        if self.key.per_minute is not None:
            self._take_one(self.key.per_minute, now)

    def _take_one(self, per_minute: int, now: Instant) -> None:
        """Token bucket that holds one minute's requests."""
        grown = (now - self._filled_at) * per_minute / MINUTE
        self._left, self._filled_at = min(float(per_minute), self._left + grown), now
        if self._left < 1:
            self.refused += 1
            wait = (1 - self._left) * MINUTE / per_minute
            raise OverLimit(f"rate limit: {per_minute} requests/min", retry_after=wait)
        self._left -= 1


class KeyUse:
    """One request of an account, from admission to its end."""

    __slots__ = ("_account", "_devices", "_is_over", "_meter", "_since", "model")

    def __init__(self, account: Account) -> None:
        self._account = account
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

    def ended(self, now: Instant) -> None:
        """Safe to call twice."""
        if not self._is_over:
            self._is_over = True
            self._account.in_flight -= 1
            self._charge(now)

    def _charge(self, now: Instant) -> None:
        meter, self._meter = self._meter, None
        if meter is not None:
            self._account.device_s += meter.leave(self._since, now) * self._devices


class Accounts:
    """All accounts, by the digest of the key, and the meters of the models."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Account] = {}
        self._meters: dict[ModelName, Meter] = {}

    def open(self, keys: Iterable[ApiKey]) -> list[Account]:
        """The accounts of the configured keys; accounts of other keys are dropped."""
        before, self._by_digest = self._by_digest, {}
        for key in keys:
            digest = digest_of(key)
            account = before.get(digest) or Account(digest, key)
            account.renew(key)
            self._by_digest[digest] = account
        return self.all()

    def all(self) -> list[Account]:
        return list(self._by_digest.values())

    def meter(self, model: ModelName) -> Meter:
        return self._meters.setdefault(model, Meter())


def digest_of(key: ApiKey) -> bytes:
    return bytes.fromhex(key.hashed) if key.hashed else sha256(key.secret.encode()).digest()
