"""Whatever happens, in whatever order, the promises hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from tests.support.chaos import ENDINGS, ORDINARY, RIGS, TROUBLES, Chaos

pytestmark = pytest.mark.uncounted

test_the_promises_hold_in_any_world = Chaos.TestCase
test_the_promises_hold_in_any_world.settings = settings(max_examples=2 * settings().max_examples)


@pytest.mark.parametrize("seed", range(30))
def test_the_promises_hold_over_a_long_life(seed: int) -> None:
    """Where a search likes the odd and the short, dice bring the ordinary and the long."""
    dice = random.Random(seed)
    life = Chaos()
    life.open(dice.choice(sorted(RIGS)), dice.choice(ENDINGS), frozenset(dice.sample(TROUBLES, dice.randrange(3))))
    for _ in range(400):
        life.something_happens(dice.choice(2 * ORDINARY + TROUBLES), dice.randrange(420))

    life.teardown()
