"""What was asked lately, kept within bounds."""

from __future__ import annotations

from dataclasses import dataclass

from hotseat.activity import KEPT, LONGEST_PATH, Activity
from hotseat.terms import ClientId, ModelName

QWEN, SOMEONE = ModelName("qwen"), ClientId("someone")


@dataclass
class Head:
    method: bytes = b"POST"
    target: bytes = b"/v1/chat/completions"


class Counter:
    def __init__(self) -> None:
        self.counted = 0

    def finished(
        self, model: ModelName, status: int, waited_s: float, first_byte_s: float | None, seconds: float
    ) -> None:
        self.counted += 1

    def refused(self, code: str) -> None:
        raise AssertionError("nothing is refused here")


def one_more(activity: Activity, head: Head | None = None) -> None:
    activity.finished(QWEN, 200, 0.1, 0.2, 0.3, SOMEONE, head or Head(), b"gateway-7")


def test_who_comes_back_gets_what_is_new() -> None:
    """Finished requests are numbered, so that nobody fetches one twice."""
    activity = Activity(Counter(), wall_clock=lambda: 77.0)
    one_more(activity)
    one_more(activity)

    [new] = activity.recent(after=1)
    assert (new.n, new.at, new.model, new.client, new.seconds, new.id) == (2, 77.0, QWEN, SOMEONE, 0.3, b"gateway-7")


def test_only_the_last_ones_are_kept_and_all_are_counted() -> None:
    """A busy day takes no more memory than a quiet one, and the ledger misses nothing."""
    counter = Counter()
    activity = Activity(counter)
    for _ in range(KEPT + 5):
        one_more(activity)

    assert [activity.recent()[0].n, activity.recent()[-1].n] == [6, KEPT + 5]
    assert counter.counted == KEPT + 5


def test_a_long_target_is_shortened() -> None:
    """A client cannot fill the memory with the paths that it asks for."""
    activity = Activity(Counter())
    one_more(activity, Head(target=b"/" * 10_000))

    assert len(activity.recent()[0].target) == LONGEST_PATH
