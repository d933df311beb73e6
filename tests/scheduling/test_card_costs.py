"""The work of decisions on a machine with many cards, where there are many sets of cards to choose from."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import play
from hotseat.simulation.trace import Closed, Memory, Model, Step, Trace

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, ModelName
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event

CARDS, MODELS, CLIENTS, CLAIMS = 8, 16, 16, 7
MOST_CALLS = 30_000


class Counted:
    """The production scheduler, with the number of function calls for each event: unlike times, the same everywhere."""

    def __init__(self, trace: Trace) -> None:
        self._scheduler = Scheduler(catalog_of(trace))
        self.most_calls = self.most_claims = self._calls = 0

    def handle(self, event: Event, now: Instant) -> list[Command]:
        self._calls, before = 0, sys.getprofile()
        sys.setprofile(self._count)
        try:
            commands = self._scheduler.handle(event, now)
        finally:
            sys.setprofile(before)
        self.most_calls = max(self.most_calls, self._calls)
        self.most_claims = max(self.most_claims, len([*self._scheduler._state.claims]))
        return commands

    def _count(self, frame: object, event: str, argument: object) -> None:
        self._calls += event in ("call", "c_call")

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        return self._scheduler.draining_since(model)


def on_cards(kind: str) -> Trace:
    """Clients that use two models each, of more than the cards hold."""
    rng = Random(4)
    models = tuple(model(rng, kind, n) for n in range(MODELS))
    return Trace(models, tuple(client(rng, n) for n in range(CLIENTS)), Memory({f"gpu{n}": 24.0 for n in range(CARDS)}))


def model(rng: Random, kind: str, number: int) -> Model:
    if kind == "four cards":
        return Model(f"m{number}", 10.0, 1.0, 4, rng.choice((40.0, 60.0, 80.0)), 4)
    return Model(f"m{number}", 10.0, 1.0, 4, rng.choice((12.0, 22.0, 40.0, 60.0)), "auto")


def client(rng: Random, number: int) -> Closed:
    names = [f"m{n}" for n in rng.sample(range(MODELS), 2)]
    steps = (Step(rng.uniform(0.1, 20.0), rng.choice(names), rng.uniform(1.0, 10.0)) for _ in range(3))
    return Closed(f"c{number}", tuple(steps), rng.uniform(0.0, 30.0))


@pytest.mark.parametrize("kind", ["auto", "four cards"])
def test_a_choice_among_many_sets_of_cards(kind: str) -> None:
    """With claims for several of eight cards, an event needs a limited number of calls."""
    counted = Counted(on_cards(kind))
    play(on_cards(kind), counted)

    assert counted.most_claims >= CLAIMS
    assert counted.most_calls < MOST_CALLS
