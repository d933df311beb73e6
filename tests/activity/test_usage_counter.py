"""Requests and tokens are summed by day, model and key."""

from __future__ import annotations

from hotseat.activity.recent import Tokens
from hotseat.activity.usage_counter import DAY_S, UsageCounter, Used
from hotseat.identifiers import ModelName

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
DAY = 20_000


def test_requests_of_a_key_to_a_model_on_a_day_are_one_sum() -> None:
    """Another model, another key and another day have sums of their own."""
    now = DAY * DAY_S + 0.5
    counter = UsageCounter(lambda: now)
    counter.count(QWEN, "ann", Tokens(10, 3, None, cached=4))
    counter.count(QWEN, "ann", Tokens(20, 5, None))
    counter.count(LLAMA, "ann", Tokens(1, 1, None))
    counter.count(QWEN, "", Tokens(2, 2, None))
    now += DAY_S - 1
    counter.count(QWEN, "ann", Tokens(5, 1, None))
    now += 1
    counter.count(QWEN, "ann", Tokens(7, 7, None))

    assert counter.take() == {
        (DAY, QWEN, "ann"): Used(requests=3, prompt=35, cached=4, completion=9),
        (DAY, LLAMA, "ann"): Used(requests=1, prompt=1, completion=1),
        (DAY, QWEN, ""): Used(requests=1, prompt=2, completion=2),
        (DAY + 1, QWEN, "ann"): Used(requests=1, prompt=7, completion=7),
    }


def test_requests_without_counts_are_counted_as_such() -> None:
    """Tokens of vectors have no completion, and are known; a completion without its prompt is half known."""
    counter = UsageCounter(lambda: 0.0)
    counter.count(QWEN, "", None)
    counter.count(QWEN, "", Tokens(None, 3, None))
    counter.count(QWEN, "", Tokens(4, None, None))

    assert counter.take() == {(0, QWEN, ""): Used(requests=3, unknown=2, prompt=4, completion=3)}


def test_the_sums_of_a_key_go_on_when_they_are_taken() -> None:
    """What was taken is not there a second time, but counts for its key since the start."""
    counter = UsageCounter(lambda: 0.0)
    counter.count(QWEN, "ann", Tokens(1, 2, None))
    counter.take()
    counter.count(LLAMA, "ann", Tokens(10, 20, None))
    counter.count(LLAMA, "bob", None)

    assert counter.by_key() == {
        "ann": Used(requests=2, prompt=11, completion=22),
        "bob": Used(requests=1, unknown=1),
    }
    assert len(counter.take()) == 2
    assert counter.take() == {}
    assert counter.by_key()["ann"].prompt == 11
