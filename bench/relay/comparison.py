"""Compares the current source with an earlier revision: both run every cell in turn, and the ratio is of each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.relay.calls import call_rows
from bench.relay.checks import spread
from bench.relay.figures import Figures
from bench.relay.proxies.hotseat import HOTSEAT, at
from bench.relay.rounds import run_rounds, tell
from bench.relay.tables import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.relay.cells import Cell

MEASURES = {
    "cpu_us": "CPU-µs",
    "per_s": "answers or chunks/s",
    "share_of_bare": "share of bare",
    "mb_per_1000": "MB per 1,000",
}


def compare(revision: str, cells: Sequence[Cell], rounds: int) -> None:
    """Measure both and print a row for each cell and measure."""
    before, samples = at(revision), []
    for sample in run_rounds([HOTSEAT, before], cells, rounds):
        tell(sample)
        samples.append(sample)
    print(f"\n{plain(call_rows(before, HOTSEAT))}")
    print(f"\nhotseat, {rounds} rounds: median [lowest–highest]\n\n{plain(rows(Figures(samples), before.name))}")


def rows(figures: Figures, before: str) -> list[list[str]]:
    head = ["", "", before, "now", "now / before"]
    return [head, *(row for cell in figures.cells() for row in rows_of(figures, cell, before))]


def rows_of(figures: Figures, cell: str, before: str) -> list[list[str]]:
    found = []
    for measure, title in MEASURES.items():
        then, now = figures.get(before, cell, measure), figures.get(HOTSEAT.name, cell, measure)
        ratio = figures.ratio(HOTSEAT.name, before, cell, measure)
        if then and now and ratio:
            found.append([cell, title, spread(then), spread(now), spread(ratio)])
    return found
