"""What a key may use and has used: limits that hold, and time that adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.activity.usage import Account, Accounts, Meter
from hotseat.errors import Forbidden, OverLimit
from hotseat.settings import ApiKey


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
