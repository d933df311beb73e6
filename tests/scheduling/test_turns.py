"""How long a model in use is protected, and which one is next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.playbook import (
    arrives,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    ready,
    starts,
    stops,
    wakes_at,
)

from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Expected, Nothing, Playbook, Stage


def test_a_turn_is_patience_times_the_swap_there_and_back(yard: Playbook) -> None:
    """With both loads at ten seconds and patience 2, a turn against a claim is forty seconds."""
    yard.with_ready("qwen", 1)

    yard.at(15) >> arrives(2, "llama") << wakes_at(15 + 2 * (10 + 10))


@pytest.mark.parametrize(("patience", "turn"), [(0.5, 10), (1, 20), (4, 80)])
def test_patience_stretches_the_turn(stage: Stage, patience: float, turn: float) -> None:
    """The one knob scales every turn."""
    yard = stage(one_at_a_time("qwen", "llama", patience=patience))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "llama") << wakes_at(10 + turn)


def test_no_patience(stage: Stage) -> None:
    """Without patience a model in use leaves as soon as another is requested."""
    yard = stage(one_at_a_time("qwen", "llama", patience=0))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "llama") << nothing
    assert yard.phase("qwen") is Phase.DRAINING


def test_urgency_shortens_the_turn_of_others(stage: Stage) -> None:
    """A model four times as urgent waits a quarter of the turn."""
    yard = stage(one_at_a_time("qwen", model("chat", urgency=4)))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "chat") << wakes_at(20)


def test_a_resident_in_use_serves_on_during_its_turn(yard: Playbook) -> None:
    """Waiting for another model does not slow down the one that has its turn."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    yard.at(30) >> arrives(3, "qwen") << grants(3)


def test_a_turn_ends_early_when_the_model_falls_idle(yard: Playbook) -> None:
    """Unused time does not count as a turn."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    yard.at(20) >> leaves(1) << stops("qwen")


def test_the_turn_of_a_model_begins_when_it_is_ready(yard: Playbook) -> None:
    """Loading is not part of the turn that it buys."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard.at(5) >> arrives(2, "llama") << nothing

    yard.at(10) >> ready("qwen") << grants(1) << wakes_at(50)


def test_claims_rotate(yard: Playbook) -> None:
    """A model that was evicted queues up behind those that waited while it ran."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(11) >> arrives(3, "gemma") << nothing
    yard.at(50) >> clock << nothing
    yard >> arrives(4, "qwen") << nothing
    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << starts("llama")
    yard.at(60) >> ready("llama") << grants(2) << wakes_at(100)

    yard >> leaves(2) << stops("llama")
    yard >> exited("llama") << starts("gemma")
    yard.at(70) >> ready("gemma") << grants(3) << wakes_at(110)
    yard >> leaves(3) << stops("gemma")
    yard >> exited("gemma") << starts("qwen")


def test_an_old_request_of_the_model_that_just_left(yard: Playbook) -> None:
    """Requests older than the swap do not turn it around: their claim begins when their model's turn ended."""
    yard.with_ready("qwen", *range(8))
    yard.at(11) >> arrives(20, "llama") << wakes_at(51)
    yard.at(12) >> arrives(21, "qwen") << nothing
    yard.at(51) >> clock << nothing
    for ticket in range(7):
        yard >> leaves(ticket) << nothing
    yard >> leaves(7) << stops("qwen")
    yard >> exited("qwen") << starts("llama")

    yard.at(61) >> ready("llama") << grants(20) << wakes_at(101)


def test_who_overtook_has_no_turn_of_its_own(stage: Stage) -> None:
    """A small model that slipped in before an older claim must go when that claim is due."""
    yard = stage(with_budget(model("qwen", gib=12), model("big", gib=20), model("small", gib=8)))
    yard.with_ready("qwen", 1)
    yard.at(11) >> arrives(2, "big") << wakes_at(51)
    yard.at(35) >> arrives(3, "small") << starts("small")
    yard.at(45) >> ready("small") << grants(3) << wakes_at(51)

    yard.at(51) >> clock << nothing
    assert yard.phase("qwen") is yard.phase("small") is Phase.DRAINING


@pytest.mark.parametrize(("gib", "then"), [(21, wakes_at(100)), (24, nothing)])
def test_small_loads_cannot_keep_a_due_claim_waiting(stage: Stage, gib: float, then: Expected | Nothing) -> None:
    """While a claim that is due waits for the loader, no younger load may begin in its way."""
    small = [model(name, gib=2, ttl_s=1) for name in ("s1", "s2")]
    yard = stage(with_budget(model("qwen", gib=12), model("big", gib=gib), *small))
    yard.with_ready("qwen", 1)
    yard.at(11) >> arrives(2, "big") << wakes_at(51)
    yard.at(50) >> arrives(3, "s1") << starts("s1")
    yard.at(55) >> arrives(4, "s2") << nothing
    assert yard.why("big") == yard.why("s2") == "waiting for s1 to finish loading (5 s left)"

    yard.at(60) >> ready("s1") << grants(3) << then
    assert yard.phase("qwen") is Phase.DRAINING


def test_three_models_in_use_get_one_turn_each(yard: Playbook) -> None:
    """Between a claim and its load, every other contender has at most one turn."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard >> arrives(3, "gemma") << nothing
    yard.at(50) >> clock << nothing
    yard >> leaves(1) << stops("qwen")
    yard >> arrives(4, "qwen") << nothing
    yard >> exited("qwen") << starts("llama")
    yard.at(60) >> ready("llama") << grants(2) << wakes_at(100)
    yard.at(100) >> clock << nothing

    yard >> leaves(2) << stops("llama")
    yard >> exited("llama") << starts("gemma")
