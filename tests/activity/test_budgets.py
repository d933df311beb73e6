"""Budgets of a key: windows of the clock, what is left, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.activity.recent import Tokens
from hotseat.activity.usage import Account, Accounts
from hotseat.errors import OverBudget, OverLimit
from hotseat.settings import ApiKey, Budget

if TYPE_CHECKING:
    from hotseat.activity.budgets import UsedToday

MINUTE, DAY = 60.0, 86400.0
NOON = 20_000 * DAY + DAY / 2


class Clock:
    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def account_of(key: ApiKey, clock: Clock, used_today: UsedToday = lambda *_: 0) -> Account:
    (account,) = Accounts(used_today, clock).open([key])
    return account


def test_a_minutes_requests_are_used_up(clock: Clock) -> None:
    """The refusal says when the next minute of the clock begins, and that trying again helps."""
    account = account_of(ApiKey("k", requests=Budget(2, MINUTE)), clock)
    account.enter("m").ended(0)
    account.enter("m").ended(0)
    clock.at += 40
    with pytest.raises(OverLimit, match=r"this API key is limited to 2 requests per minute") as refused:
        account.enter("m")
    clock.at += 20
    account.enter("m")

    assert (refused.value.retry_after, refused.value.retry_helps) == (20, True)
    assert (account.requests, account.refused) == (3, 1)


def test_a_days_tokens_are_used_up(clock: Clock) -> None:
    """Prompt and answer count when the request has ended; nobody is told to try again before midnight."""
    account = account_of(ApiKey("k", tokens=Budget(100, DAY)), clock)
    first, second = account.enter("m"), account.enter("m")
    first.ended(0, Tokens(60, 50, None))
    second.ended(0)
    with pytest.raises(OverBudget, match="100 tokens per day") as refused:
        account.enter("m")
    clock.at += DAY / 2

    account.enter("m")

    assert (refused.value.retry_after, refused.value.retry_helps) == (DAY / 2, False)


def test_what_the_headers_of_a_response_say(clock: Clock) -> None:
    """The limit, what is left of it and when it is renewed, of each budget."""
    account = account_of(ApiKey("k", requests=Budget(3, MINUTE), tokens=Budget(1000, DAY)), clock)
    account.enter("m").ended(0, Tokens(200, None, None))

    assert account.budgets.fields() == [
        "x-ratelimit-limit-requests: 3",
        "x-ratelimit-remaining-requests: 2",
        "x-ratelimit-reset-requests: 60.000s",
        "x-ratelimit-limit-tokens: 1000",
        "x-ratelimit-remaining-tokens: 800",
        "x-ratelimit-reset-tokens: 43200.000s",
    ]


def test_the_clock_is_set_back(clock: Clock) -> None:
    """Nothing is renewed by it, and nothing has to wait for the time that was wrong."""
    account = account_of(ApiKey("k", requests=Budget(1, MINUTE)), clock)
    account.enter("m").ended(0)
    clock.at -= 30 * MINUTE
    with pytest.raises(OverLimit):
        account.enter("m")
    clock.at += MINUTE

    account.enter("m")


def test_a_key_without_budgets(clock: Clock) -> None:
    """Its requests pass, and it is told of no limits."""
    account = account_of(ApiKey("k"), clock)
    account.enter("m").ended(0, Tokens(10**9, 10**9, None))
    account.enter("m")

    assert not account.budgets
    assert account.budgets.fields() == []


def test_a_new_process_on_the_same_day(clock: Clock) -> None:
    """A day's budget begins with what was used since midnight; shorter windows begin anew."""
    used = {"requests": 7, "tokens": 900}
    key = ApiKey("k", name="ann", requests=Budget(10, MINUTE), tokens=Budget(1000, DAY))
    account = account_of(key, clock, lambda name, kind: used[kind] if name == "ann" else 0)
    left = [line for line in account.budgets.fields() if "remaining" in line]

    assert left == ["x-ratelimit-remaining-requests: 10", "x-ratelimit-remaining-tokens: 100"]


def test_the_process_before_this_one_ends(clock: Clock) -> None:
    """What it used of a day's budget after it was replaced counts as well, and nothing counts twice."""
    used = {"requests": 2, "tokens": 100}
    key = ApiKey("k", requests=Budget(10, MINUTE), tokens=Budget(1000, DAY))
    accounts = Accounts(lambda _, kind: used[kind], clock)
    (account,) = accounts.open([key])
    account.enter("m").ended(0, Tokens(50, None, None))
    used["tokens"] = 400
    accounts.catch_up()
    accounts.catch_up()
    left = [line for line in account.budgets.fields() if "remaining" in line]

    assert left == ["x-ratelimit-remaining-requests: 9", "x-ratelimit-remaining-tokens: 600"]


def test_a_reload_raises_a_limit(clock: Clock) -> None:
    """What was used of the window stays used; a window of another length begins anew."""
    accounts = Accounts(wall_clock=clock)
    (account,) = accounts.open([ApiKey("k", requests=Budget(1, MINUTE))])
    account.enter("m")
    accounts.open([ApiKey("k", requests=Budget(2, MINUTE))])
    account.enter("m")
    with pytest.raises(OverLimit):
        account.enter("m")
    accounts.open([ApiKey("k", requests=Budget(2, DAY))])

    account.enter("m")
