"""Whatever happens, in whatever order, the promises hold."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import settings
from tests.support.chaos import ENDINGS, ONE_AT_A_TIME, ORDINARY, RIGS, TROUBLES, Chaos
from tests.support.world import Broken, World

from hotseat.errors import NeverFits
from hotseat.identifiers import ModelName
from hotseat.scheduling import plan

pytestmark = pytest.mark.uncounted

test_the_promises_hold_in_any_world = Chaos.TestCase
test_the_promises_hold_in_any_world.settings = settings(max_examples=settings().max_examples)


@pytest.mark.parametrize("seed", range(30))
def test_the_promises_hold_over_a_long_life(seed: int) -> None:
    """A search prefers odd and short inputs; random ones are ordinary and long."""
    rng = random.Random(seed)
    life = Chaos()
    life.open(rng.randrange(len(RIGS)), rng.choice(ENDINGS), frozenset(rng.sample(TROUBLES, rng.randrange(3))))
    for _ in range(400):
        life.something_happens(rng.choice(2 * ORDINARY + TROUBLES), rng.randrange(420))

    life.teardown()


# The world itself


def with_pinned() -> World:
    """One pinned model is loaded, beside which all others may run."""
    world = World(RIGS["guesses"])
    world.arrive(ModelName("pinned"))
    world.become_ready(*world.servers.values())
    return world


def test_a_refusal_by_groups_is_not_one_by_a_guess() -> None:
    """What is pinned stays, and no start alone would help."""
    world = with_pinned()
    world.change(replace(world.catalog, groups=ONE_AT_A_TIME))

    world.arrive(ModelName("bigger"))
    assert not world.waiting


@pytest.mark.parametrize("reason", ["it may not run together with pinned, which is pinned", "it needs 21 GiB"])
def test_a_refusal_for_a_reason_that_is_not_true_is_found(reason: str) -> None:
    """Neither groups nor memory refuse it."""
    world = with_pinned()

    with patch.object(plan, "refusal", lambda *_: NeverFits(reason)), pytest.raises(Broken, match=reason):
        world.arrive(ModelName("bigger"))


def test_a_promise_that_is_broken_within_a_restart_is_told_as_such() -> None:
    """The next process does not know those who wait yet: comparing at the end would find only that."""
    world = with_pinned()
    world.request_handover()
    world.arrive(ModelName("bigger"))

    with patch.object(plan, "refusal", lambda *_: NeverFits("it needs 21 GiB")), pytest.raises(Broken):
        world.hand_over(world.catalog)
    assert not world.is_sound
