"""How long loads take, learned by watching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.playbook import arrives, failed, leaves, nothing, ready, refuses, starts

from hotseat.scheduling.habits import FRESH, UNKNOWN_LOAD_S, Habits
from hotseat.terms import ModelName

if TYPE_CHECKING:
    from tests.support.playbook import Playbook

QWEN, LLAMA, GEMMA = ModelName("qwen"), ModelName("llama"), ModelName("gemma")


def test_before_anything_was_seen() -> None:
    """There is a guess, and it is not shown as a measurement."""
    assert Habits().load_s(QWEN) == UNKNOWN_LOAD_S
    assert Habits().measured_load_s(QWEN) is None


def test_the_first_measurement_replaces_the_guess() -> None:
    """One load is enough to know better."""
    habits = Habits()
    habits.loaded(QWEN, 12)

    assert habits.load_s(QWEN) == habits.measured_load_s(QWEN) == 12


def test_an_odd_load_does_not_count_for_ever() -> None:
    """Later loads move the figure slowly."""
    habits = Habits()
    habits.loaded(QWEN, 10)
    habits.loaded(QWEN, 40)

    assert habits.load_s(QWEN) == pytest.approx(10 + FRESH * 30)


def test_a_model_never_seen_is_like_the_others() -> None:
    """The mean of what was seen is a better guess than ours."""
    habits = Habits()
    habits.loaded(QWEN, 10)
    habits.loaded(LLAMA, 20)

    assert habits.load_s(GEMMA) == 15


def test_only_finished_loads_count(yard: Playbook) -> None:
    """A start that failed says nothing about how long a load takes."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard.at(3) >> failed("qwen") << refuses(1)
    assert yard.view("qwen").load_s is None
    yard >> arrives(2, "qwen") << starts("qwen")
    yard >> leaves(2) << nothing
    yard.at(11) >> ready("qwen") << nothing

    assert yard.view("qwen").load_s == 8
