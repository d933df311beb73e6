"""One run: every proxy runs every cell, in a new order each round, while all others are paused."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, TypeVar

from bench.relay.cells import Cell, Work
from bench.relay.figures import BARE, Sample
from bench.relay.measure import measure
from bench.relay.running_proxies import Programs, RunningProxy, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.relay.proxies.kinds import Proxy

T = TypeVar("T")

MEMORY_ROUNDS = 3
"""Memory varies little from round to round."""


def run_rounds(proxies: Sequence[Proxy], cells: Sequence[Cell], rounds: int) -> Iterator[Sample]:
    """Each sample when it was taken; raises at the first error."""
    rates = [cell for cell in cells if not cell.weighs_memory]
    if rates:
        with started(proxies, needs_llama=any(cell.work is Work.LLAMA for cell in rates)) as programs:
            for number in range(rounds):
                yield from rate_round(programs, rates, number)
    for number in range(min(rounds, MEMORY_ROUNDS)):
        yield from memory_round(proxies, [cell for cell in cells if cell.weighs_memory], number)


def rate_round(programs: Programs, cells: Sequence[Cell], number: int) -> Iterator[Sample]:
    """Cell by cell, so that compared figures are close in time."""
    for cell in cells:
        for running in shuffled(programs.proxies):
            with running.turn():
                yield sample(running, cell, number)
            programs.must_live()


def memory_round(proxies: Sequence[Proxy], cells: Sequence[Cell], number: int) -> Iterator[Sample]:
    """Each figure from a new process: what an earlier load left in the heap would hide the growth."""
    for cell in cells:
        for proxy in shuffled(proxies):
            with started([proxy], needs_llama=False) as programs:
                running = next(running for running in programs.proxies if running.name != BARE)
                with running.turn():
                    yield sample(running, cell, number)


def sample(running: RunningProxy, cell: Cell, number: int) -> Sample:
    return Sample(running.name, cell.key, number, measure(running, cell))


def tell(sample: Sample) -> None:
    """Print it for whoever watches."""
    shown = "  ".join(f"{name} {value:.1f}" for name, value in sample.values.items())
    print(f"  round {sample.round + 1}  {sample.cell:<18}{sample.proxy:<17} {shown}", file=sys.stderr)


def shuffled(entries: Sequence[T]) -> list[T]:
    return random.sample(entries, len(entries))
