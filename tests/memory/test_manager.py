"""When the machine is measured, and when it is not."""

from __future__ import annotations

from hotseat.identifiers import ModelName
from hotseat.memory.manager import wants_to_look

RUNNING = {ModelName("qwen"): 7}


def test_an_idle_machine_is_left_alone() -> None:
    """A measurement may wake a sleeping card."""
    assert wants_to_look(RUNNING, is_short=False)
    assert not wants_to_look({}, is_short=False)


def test_others_are_watched_until_they_are_gone() -> None:
    """Their exit gives no event: without measurements, models would be refused because of them for ever."""
    assert wants_to_look({}, is_short=True)


def test_whoever_measures_nothing_does_not_look() -> None:
    """Earlier measurements do not matter."""
    assert not wants_to_look(None, is_short=True)
