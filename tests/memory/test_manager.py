"""When the machine is measured, and when it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.support.catalogs import GIB, gpu, model, with_budget

from hotseat.identifiers import ModelName
from hotseat.memory.manager import wants_to_look

HOUSE = with_budget(model("qwen", gib=8))
CROWDED = replace(HOUSE, available={gpu(0): 4 * GIB})


def test_an_idle_machine_is_left_alone() -> None:
    """A measurement may wake a sleeping card."""
    assert wants_to_look({ModelName("qwen"): 7}, HOUSE)
    assert not wants_to_look({}, HOUSE)


def test_others_are_watched_until_they_are_gone() -> None:
    """Their exit gives no event: without measurements, models would be refused because of them for ever."""
    assert wants_to_look({}, CROWDED)
    assert not wants_to_look({}, replace(CROWDED, available={gpu(0): 24 * GIB}))


def test_whoever_measures_nothing_does_not_look() -> None:
    """Earlier measurements do not matter."""
    assert not wants_to_look(None, CROWDED)
