"""What a key may use and has used: limits and budgets that hold, and time that adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.activity.recent import Tokens
from hotseat.activity.usage import Account, Accounts, Meter
from hotseat.errors import Forbidden, OverBudget, OverLimit
from hotseat.settings import ApiKey, Budget

if TYPE_CHECKING:
    from hotseat.activity.usage import UsedToday


def an_account(**limits: object) -> Account:
    (account,) = Accounts().open([ApiKey("k", **limits)])  # type: ignore[arg-type]  # tests name what they need
    return account


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=20))
def test_what_is_charged_adds_up_to_the_time_in_use(stays: list[tuple[float, float]]) -> None:
    """Whenever requests come and go, all charges together are the time for which the model was in use."""
    meter, charged = Meter(), 0.0
    entered: dict[int, float] = {}
    moments = sorted(
        (when, is_end, n)
        for n, (begin, length) in enumerate(stays)
        for when, is_end in ((begin, False), (begin + length, True))
    )
    in_use, users, last = 0.0, 0, 0.0
    for when, is_end, n in moments:
        in_use, last = in_use + (when - last if users else 0.0), when
        users += -1 if is_end else 1
        if is_end:
            charged += meter.leave(entered[n], when)
        else:
            entered[n] = meter.enter(when)

    assert charged == pytest.approx(in_use, abs=1e-6)


def test_who_is_served_together_shares_the_time() -> None:
    """Ten seconds alone and ten with another are fifteen; two devices are twice as much."""
    first, second, meter = an_account(), an_account(), Meter()
    one, other = first.enter("m"), second.enter("m")
    one.granted(meter, 1, 0)
    other.granted(meter, 2, 10)
    one.ended(20)
    other.ended(20)

    assert (first.device_s, second.device_s) == (15, 10)


def test_waiting_costs_no_device_time() -> None:
    """Only from the grant on does a request have a model."""
    account = an_account()
    account.enter("m").ended(100)

    assert (account.requests, account.device_s, account.in_flight) == (1, 0, 0)


def test_a_server_that_died_was_used_too() -> None:
    """A request that is granted once more is charged for both servers."""
    account, meter = an_account(), Meter()
    key_use = account.enter("m")
    key_use.granted(meter, 1, 0)
    key_use.granted(meter, 1, 5)
    key_use.ended(7)

    assert account.device_s == 7


def test_only_so_many_requests_are_under_way() -> None:
    """The next one may come when one of them has ended."""
    account = an_account(concurrency=1)
    key_use = account.enter("m")
    with pytest.raises(OverLimit, match="this API key is limited to 1 request at a time"):
        account.enter("m")
    key_use.ended(1)

    account.enter("m")

    assert (account.in_flight, account.refused) == (1, 1)


def test_a_key_for_some_models_is_for_no_other() -> None:
    """What it may not use does not count as used."""
    account = an_account(models=("qwen",))
    with pytest.raises(Forbidden, match='may not use the model "llama"'):
        account.enter("llama")

    account.enter("qwen")

    assert account.requests == 1


def test_a_reload_changes_limits_and_leaves_counts() -> None:
    """Keys are known again by their digests; those that are gone are forgotten."""
    accounts = Accounts()
    (before,) = accounts.open([ApiKey("k", concurrency=5)])
    before.enter("m")
    (after,) = accounts.open([ApiKey("k", name="ann", concurrency=1)])

    assert after is before
    assert (after.name, after.in_flight) == ("ann", 1)
    with pytest.raises(OverLimit):
        after.enter("m")
    assert accounts.open([]) == []


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
