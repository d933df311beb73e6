"""What each API key may use and has used: requests, tokens, and device time.

Counted only if keys are configured. A reload changes the limits and keeps the counts. The windows of budgets are those
of the clock: a day begins at midnight UTC, as in the usage per day. Tokens are counted when a request has ended, so
what is in progress may exceed a budget.
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from hotseat.errors import Forbidden, OverBudget, OverLimit
from hotseat.settings import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.activity.recent import Tokens
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.settings import ApiKey, Budget

    UsedToday: TypeAlias = Callable[[str, str], int]
    """What the key of this name has used since midnight UTC in an earlier process: "requests" or "tokens"."""

SHOWN = 8
"""Hexadecimal digits of a key's digest: enough to tell keys apart, not enough to guess one."""
HELD = "hotseat-key"
"""Header that tells the management API, by digest, which key a request used."""
SIGNED_IN = "hotseat-user"
"""Header that tells it who has signed in at a proxy instead, percent-encoded."""
REQUESTS, TOKENS = "requests", "tokens"
SOON_S: Seconds = 60.0
"""Clients that are told to try again wait for no more than about a minute."""


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


def as_told_to(account: Account | None, error: HotseatError) -> HotseatError:
    """A key that is for some models does not learn the names of others."""
    return error.without_names() if account is not None and account.models else error


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


class BudgetCount:
    """`at` is the time of the wall clock."""

    __slots__ = ("_used", "_window", "budget")

    def __init__(self, budget: Budget, used: int, at: float) -> None:
        self.budget = budget
        self._window = at // budget.window_s
        self._used = used

    def used(self, at: float) -> int:
        window = at // self.budget.window_s
        if window > self._window:
            self._used = 0
        self._window = window  # also an earlier one: a clock that is set back renews nothing, and holds nothing up
        return self._used

    def add(self, amount: int, at: float) -> None:
        self._used = self.used(at) + amount

    def left(self, at: float) -> int:
        return max(0, self.budget.most - self.used(at))

    def renewed_in(self, at: float) -> Seconds:
        return self.budget.window_s - at % self.budget.window_s

    def fields(self, kind: str, at: float) -> list[str]:
        """Header lines as OpenAI's API writes them."""
        return [
            f"x-ratelimit-limit-{kind}: {self.budget.most}",
            f"x-ratelimit-remaining-{kind}: {self.left(at)}",
            f"x-ratelimit-reset-{kind}: {self.renewed_in(at):.3f}s",
        ]


class Budgets:
    """Those of one key. Empty, and false, if it has none."""

    def __init__(self, used_today: UsedToday, wall_clock: Callable[[], float]) -> None:
        self._used_today, self._wall_clock = used_today, wall_clock
        self._counts: dict[str, BudgetCount] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def renew(self, key: ApiKey, name: str) -> None:
        """Apply the current configuration; counts of windows that are as long as before stay."""
        configured = {REQUESTS: key.requests, TOKENS: key.tokens}
        self._counts = {kind: self._count(kind, name, budget) for kind, budget in configured.items() if budget}

    def _count(self, kind: str, name: str, budget: Budget) -> BudgetCount:
        before, at = self._counts.get(kind), self._wall_clock()
        if before is not None and before.budget.window_s == budget.window_s:
            return BudgetCount(budget, before.used(at), at)
        used = self._used_today(name, kind) if budget.window_s == WINDOWS["day"] else 0
        return BudgetCount(budget, used, at)

    def catch_up(self, name: str) -> None:
        """Count what the process that this one has replaced used of a day's budget until its end."""
        at = self._wall_clock()
        for kind, count in self._counts.items():
            if count.budget.window_s == WINDOWS["day"]:
                count.add(max(0, self._used_today(name, kind) - count.used(at)), at)

    def take_request(self) -> None:
        """Count a request, or raise if a budget is used up."""
        at = self._wall_clock()
        for kind, count in self._counts.items():
            if not count.left(at):
                wait_s, fields = count.renewed_in(at), self.fields()
                error = OverLimit if wait_s <= SOON_S else OverBudget
                raise error(f"this API key is limited to {count.budget.words(kind)}", retry_after=wait_s, fields=fields)
        self._add(REQUESTS, 1)

    def spend(self, tokens: Tokens | None, estimated: int) -> None:
        """Count the tokens of a request that has ended."""
        reported = 0 if tokens is None else (tokens.prompt or 0) + (tokens.completion or 0)
        self._add(TOKENS, reported + estimated)

    def _add(self, kind: str, amount: int) -> None:
        if kind in self._counts:
            self._counts[kind].add(amount, self._wall_clock())

    def fields(self) -> list[str]:
        """Header lines that tell the client what is left."""
        at = self._wall_clock()
        return [line for kind, count in self._counts.items() for line in count.fields(kind, at)]
