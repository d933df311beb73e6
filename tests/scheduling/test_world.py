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
    """A search prefers odd and short inputs; random ones are ordinary and long."""
    rng = random.Random(seed)
    life = Chaos()
    life.open(rng.randrange(len(RIGS)), rng.choice(ENDINGS), frozenset(rng.sample(TROUBLES, rng.randrange(3))))
    for _ in range(400):
        life.something_happens(rng.choice(2 * ORDINARY + TROUBLES), rng.randrange(420))

    life.teardown()
