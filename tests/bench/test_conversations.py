"""Conversations are judged by what was measured of them, and by nothing else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

from bench.conversations.results import OFF, ON, STAYED, Record, Return, Swap, verdicts
from bench.conversations.sides import Talk, read_turn

if TYPE_CHECKING:
    import http.client

STREAM = b"""data: {"choices": [{"delta": {"role": "assistant", "content": null}}]}

data: {"choices": [{"delta": {"content": "babe"}}]}

data: {"choices": [{"delta": {}}], "timings": {"cache_n": 990, "prompt_n": 10}}

data: [DONE]

"""


def back(side: str, turn_s: float, cached: int, *texts: str) -> Return:
    return Return("alpha-1", side, 0.2, turn_s + 0.3, turn_s, cached, 1_000 - cached, texts)


def record(*returns: Return, swaps: tuple[Swap, ...] = (), answers: tuple[Return, ...] = ()) -> Record:
    return Record("2026-11-17", 0.5, returns, swaps, answers)


def test_a_turn_is_what_the_server_streamed() -> None:
    """The text, and the tokens of the prompt that were reused and computed."""
    turn = read_turn(1.0, cast("http.client.HTTPResponse", io.BytesIO(STREAM)))

    assert (turn.text, turn.cached, turn.computed) == ("babe", 990, 10)
    assert turn.first_token > turn.sent


def test_a_conversation_has_as_many_tokens_as_wanted() -> None:
    """The same name begins the same conversation, on both sides."""
    one, other = Talk.about("one", 600), Talk.about("one", 600)

    assert one == other
    assert len(one.messages[0]["content"]) == 600
    assert Talk.about("two", 600) != one


def test_a_quick_return_with_all_tokens_meets_its_targets() -> None:
    """A side is judged by the median of its times and by its worst share."""
    good = record(back(OFF, 4.0, 0), back(ON, 0.9, 995), back(ON, 9.0, 991), back(ON, 0.8, 995))
    bad = record(back(OFF, 4.0, 0), back(ON, 1.1, 995), back(ON, 0.9, 980), back(ON, 1.2, 995))

    assert [(each.measured, each.holds) for each in verdicts(good)] == [("0.225", True), ("99.1%", True)]
    assert [(each.measured, each.holds) for each in verdicts(bad)] == [("0.275", False), ("98.0%", False)]


def test_a_swap_with_nothing_to_save_may_not_take_longer() -> None:
    """Only as much as two equal sides may differ."""
    equal = record(swaps=(Swap(ON, 0.505), Swap(OFF, 0.5)))
    slower = record(swaps=(Swap(ON, 0.6), Swap(OFF, 0.5)))

    assert [each.holds for found in (equal, slower) for each in verdicts(found)] == [True, False]


def answers(restored: str, recomputed: str) -> tuple[Return, ...]:
    return (back(STAYED, 1, 995, "a", "b"), back(ON, 1, 995, "a", restored), back(OFF, 1, 0, "a", recomputed))


def test_one_other_answer_misses_the_target() -> None:
    """Answers are compared with those of a model that was not swapped, conversation by conversation."""
    same, other = record(answers=answers("b", "c")), record(answers=answers("c", "b"))

    assert [(each.measured, each.holds) for found in (same, other) for each in verdicts(found)] == [
        ("2 of 2", True),
        ("1 of 2", False),
    ]
