"""Precedence of programs and operators over models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import gpu
from tests.support.waiting import come_true

from hotseat.hardware.other_programs import OtherProgram
from hotseat.memory.precedence import Precedence
from hotseat.scheduling.events import YieldEnded, YieldRequested
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.scheduling.events import Event

GAME = OtherProgram(4242, "game.exe")


class Street:
    """The running programs, and the events that the scheduler received."""

    def __init__(self, *patterns: str) -> None:
        self.about: list[OtherProgram] = []
        self.events: list[Event] = []
        self.asked: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
        self.precedence = Precedence(self.events.append, lambda: patterns, lambda: (7, 8), self._look, every_s=0.001)

    def _look(self, patterns: Collection[str], ours: Collection[int]) -> list[OtherProgram]:
        self.asked.append((tuple(patterns), tuple(ours)))
        return self.about


async def test_models_yield_memory_while_a_program_runs() -> None:
    """There is one event when the program starts and one when it has ended."""
    street = Street("game*")
    await street.precedence.look()
    street.about = [GAME]
    await street.precedence.look()
    await street.precedence.look()
    street.about = []
    await street.precedence.look()

    assert street.events == [YieldRequested("game.exe is running (pid 4242)"), YieldEnded()]
    assert street.asked[0] == (("game*",), (7, 8))


async def test_nobody_is_looked_for_where_nobody_is_named() -> None:
    """A search costs a pass over all processes."""
    street = Street()
    await street.precedence.look()

    assert (street.asked, street.events) == ([], [])


async def test_an_operator_asks_for_one_device() -> None:
    """It lasts until the operator withdraws it."""
    street = Street()
    street.precedence.yield_memory("training", frozenset({gpu(0)}))
    left = street.precedence.resume()

    assert street.events == [YieldRequested("training", frozenset({gpu(0)})), YieldEnded()]
    assert left == ""


async def test_an_operator_takes_his_wish_back_while_a_program_runs() -> None:
    """Models still yield, and the operator sees to which program."""
    street = Street("game*")
    street.precedence.yield_memory("training")
    street.about = [GAME]
    await street.precedence.look()
    left = street.precedence.resume()

    assert left == "game.exe is running (pid 4242)"
    assert street.events[-1] == YieldRequested("game.exe is running (pid 4242)")


async def test_programs_are_looked_for_again_and_again() -> None:
    """The search repeats while hotseat runs."""
    street = Street("game*")
    tasks = Tasks()
    tasks.start(street.precedence.walk(), "walk")
    await come_true(lambda: len(street.asked) >= 3)
    await tasks.aclose()

    assert street.events == []
