"""What was asked lately, kept within bounds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hotseat.activity.recent import KEPT, LONGEST_PATH, Activity, Tokens
from hotseat.identifiers import ClientId, ModelName

QWEN, SOMEONE = ModelName("qwen"), ClientId("someone")


@dataclass
class Head:
    method: bytes = b"POST"
    target: bytes = b"/v1/chat/completions"


class Counter:
    def __init__(self) -> None:
        self.ended = 0
        self.per_second: list[float | None] = []

    def finished(
        self, model: ModelName, status: int, waited_s: float, first_byte_s: float | None, seconds: float
    ) -> None:
        self.ended += 1

    def counted(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None:
        self.per_second.append(per_second)

    def refused(self, code: str) -> None:
        raise AssertionError("nothing is refused here")


def one_more(activity: Activity, head: Head | None = None, tokens: Tokens | None = None) -> None:
    activity.finished(QWEN, 200, 0.5, 0.75, 1.0, SOMEONE, head or Head(), b"gateway-7", tokens)


def test_who_comes_back_gets_what_is_new() -> None:
    """Finished requests are numbered, so that none is fetched twice."""
    activity = Activity(Counter(), wall_clock=lambda: 77.0)
    one_more(activity)
    one_more(activity)

    [new] = activity.recent(after=1)
    assert (new.n, new.at, new.model, new.client, new.seconds, new.id) == (2, 77.0, QWEN, SOMEONE, 1.0, b"gateway-7")


def test_only_the_last_ones_are_kept_and_all_are_counted() -> None:
    """A busy day takes no more memory than a quiet one, and the ledger misses nothing."""
    counter = Counter()
    activity = Activity(counter)
    for _ in range(KEPT + 5):
        one_more(activity)

    assert [activity.recent()[0].n, activity.recent()[-1].n] == [6, KEPT + 5]
    assert counter.ended == KEPT + 5


def test_a_long_target_is_shortened() -> None:
    """A client cannot fill the memory with the paths that it asks for."""
    activity = Activity(Counter())
    one_more(activity, Head(target=b"/" * 10_000))

    assert len(activity.recent()[0].target) == LONGEST_PATH


@pytest.mark.parametrize(
    ("tokens", "per_second"),
    [
        (Tokens(3, 20, 55.5), 55.5),
        (Tokens(3, 20, None), 40.0),
        (Tokens(3, None, None), None),
        (Tokens(None, 0, None), None),
    ],
)
def test_how_quickly_it_was_said(tokens: Tokens, per_second: float | None) -> None:
    """The server's own figure, else what it said over the time that it had: the wait for it does not count."""
    counter = Counter()
    activity = Activity(counter)
    one_more(activity, tokens=tokens)
    one_more(activity)

    assert [ended.tokens_per_s for ended in activity.recent()] == [per_second, None]
    assert counter.per_second == [per_second]
    assert activity.rates.get(QWEN) == per_second
