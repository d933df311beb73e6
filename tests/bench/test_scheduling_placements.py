"""The cards that the scheduler chooses are compared with fixed assignments of models to cards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.scheduling.checks import Record, verdicts
from bench.scheduling.placements import Placement, assigned, balanced, chosen, placement, renumbered, trace

from hotseat.simulation.trace import Memory, Model, Trace

FOUND = Placement(cards=4, models=8, seed=1, auto=2.1, best=2.0, usual=3.0)


def record(*placements: Placement) -> Record:
    return Record("2026-01-01", "a machine", 1.0, (), placements=placements)


def test_the_chosen_cards_are_nearly_as_good_as_the_best_of_a_few_assignments() -> None:
    """The whole search is that of `just bench-scheduling`."""
    found = placement(4, 51_000, tried=2)

    assert found.ratio <= 1.1, found
    assert found.best <= found.usual


def test_an_assignment_declares_each_models_card() -> None:
    """And nothing else changes; with `gpus: auto` the size stays one figure."""
    mix = Trace((Model("a", 1.0, size=8.0), Model("b", 1.0, size=9.0)), (), Memory({"gpu0": 24.0, "gpu1": 24.0}))

    assert assigned(mix, (0, 1)).models == (
        Model("a", 1.0, size={"gpu0": 8.0}),
        Model("b", 1.0, size={"gpu1": 9.0}),
    )
    assert chosen(mix).models[0] == Model("a", 1.0, size=8.0, gpus="auto")


def test_assignments_that_only_number_the_cards_otherwise_are_one() -> None:
    """The cards are equal."""
    assert renumbered((2, 0, 2, 1)) == renumbered((0, 1, 0, 2)) == (0, 1, 0, 2)


def test_the_balanced_assignment_uses_all_cards() -> None:
    """22 and 5, 20 and 9, 18 and 12, 16 and 14 GiB."""
    assert balanced(trace(4, 1), 4) == (0, 1, 2, 3, 3, 2, 1, 0)


@pytest.mark.parametrize(("auto", "holds"), [(2.2, True), (2.3, False)])
def test_the_chosen_cards_are_judged_by_the_best_assignment(auto: float, *, holds: bool) -> None:
    """A tenth is allowed: the best assignment knows the requests."""
    [verdict] = verdicts(record(replace(FOUND, auto=auto)))

    assert verdict.promise == "8 models on 4 cards: slowdown over the best assignment's"
    assert verdict.holds is holds
