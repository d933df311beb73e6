"""Every caller, every path, every method, every way to name a model: what came of each request, and what was wrong.

`just roles [--each N] [--seed N]` runs it and says in one line how much was tried.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import uvloop
from tests.support.role_judge import problem
from tests.support.role_requests import Plan, requests
from tests.support.role_world import Situation, world
from tests.support.routes import own_routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.role_requests import Trial
    from tests.support.role_world import Seen, World

SITUATIONS = (
    Situation("", running=("alpha",)),
    Situation("night", running=("beta",)),
    Situation("", running=(), default="beta"),
    Situation("night", running=("alpha", "beta"), default="alpha"),
)
QUICK, DEEP = 2, 24
"""Requests of each caller to each path, each in one of the situations."""


@dataclass
class Results:
    requests: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    callers: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    namings: set[str] = field(default_factory=set)
    leaks: list[str] = field(default_factory=list)

    def add(self, trial: Trial, seen: Seen) -> None:
        self.requests += 1
        self.answers[seen.status] += 1
        self.callers.add(trial.caller)
        self.paths.add(trial.path)
        self.methods.add(trial.request.method)
        self.namings.add(trial.naming)

    def __str__(self) -> str:
        return (
            f"{self.requests} requests: {len(self.callers)} callers × {len(self.paths)} paths × "
            f"{len(self.methods)} methods × {len(self.namings)} ways to name a model, {len(self.leaks)} leaks"
        )


def run(plan: Plan) -> Results:
    """A share of all trials in each situation."""
    results = Results()
    trials = list(requests(plan, own_routes()))
    with (
        patch("hotseat.dispatch.server_tasks.PAUSE_S", 0.0),  # no real server needs time to stop
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        for number, situation in enumerate(SITUATIONS):
            runner.run(try_all(trials[number :: len(SITUATIONS)], situation, results))
    return results


async def try_all(trials: Sequence[Trial], situation: Situation, results: Results) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder), situation) as here:
            for trial in trials:
                for _ in ("new", "known"):  # a head from the cache takes a shorter path
                    await try_one(trial, here, results)


async def try_one(trial: Trial, here: World, results: Results) -> None:
    seen = await here.ask(trial.request)
    results.add(trial, seen)
    if wrong := problem(here.oracle, trial.request, seen):
        results.leaks.append(f"{here.situation}\n{trial.caller}: {trial.request}\n{seen}\n{wrong}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--each", type=int, default=DEEP, help="requests of each caller to each path")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    results = run(Plan(chosen.seed, chosen.each))
    print(*results.leaks, results, sep="\n\n" if results.leaks else "")
    return 1 if results.leaks else 0


if __name__ == "__main__":
    sys.exit(main())
