"""When the machine is measured, and when it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.support.catalogs import GIB, gpu, model, with_budget

from hotseat.identifiers import ModelName
from hotseat.memory.manager import wants_to_look

RIG = with_budget(model("qwen", gib=8))
EXCEEDS_MEMORY = replace(RIG, available={gpu(0): 4 * GIB})


def test_an_idle_machine_is_left_alone() -> None:
    """A measurement may wake a sleeping card."""
    assert wants_to_look({ModelName("qwen"): 7}, RIG)
    assert not wants_to_look({}, RIG)


def test_others_are_watched_until_they_are_gone() -> None:
    """Their exit gives no event: without measurements, models would be refused because of them for ever."""
    assert wants_to_look({}, EXCEEDS_MEMORY)
    assert not wants_to_look({}, replace(EXCEEDS_MEMORY, available={gpu(0): 24 * GIB}))


def test_whoever_measures_nothing_does_not_look() -> None:
    """Earlier measurements do not matter."""
    assert not wants_to_look(None, EXCEEDS_MEMORY)
