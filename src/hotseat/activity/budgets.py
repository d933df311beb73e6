"""What a key has used of its budgets of requests and tokens in their current windows.

Windows are those of the clock: a day begins at midnight UTC, as in the usage per day. Tokens are counted when a request
has ended, so what is in progress may exceed a budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hotseat.errors import OverBudget, OverLimit
from hotseat.settings import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Seconds
    from hotseat.settings import ApiKey, Budget

    UsedToday: TypeAlias = Callable[[str, str], int]
    """What the key of this name has used since midnight UTC in an earlier process: "requests" or "tokens"."""

REQUESTS, TOKENS = "requests", "tokens"
SOON_S: Seconds = 60.0
"""Clients that are told to try again wait for no more than about a minute."""


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
