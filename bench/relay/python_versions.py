"""Compares hotseat on the system's Python with hotseat on another one: docs/reference/python-versions.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Template
from typing import TYPE_CHECKING

from bench.relay.checks import spread
from bench.relay.comparison import MEASURES
from bench.relay.figures import Figures
from bench.relay.page import PAGE, conditions
from bench.relay.processes import Failure, Share
from bench.relay.proxies.hotseat import HOTSEAT, within
from bench.relay.pythons import python_number
from bench.relay.record import recorded
from bench.relay.roots import MACHINE, distribution
from bench.relay.rounds import run_rounds, tell
from bench.relay.tables import ABSENT, TABLES, markdown, plain
from bench.relay.tools import HERE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.relay.cells import Cell
    from bench.relay.record import Record
    from bench.relay.tables import Column, Table

OF_PYTHONS = PAGE.with_name("python-versions.md")
TEMPLATE = Template((HERE / "python_versions.md").read_text())
COMPARED = {*MEASURES, "base_mb"}
"""Not the delays: an added delay may be zero, and then a ratio says nothing."""


@dataclass(frozen=True, slots=True)
class TwoPythons:
    """A run of two proxies that differ in their Python."""

    record: Record
    before: str
    now: str

    def page(self) -> str:
        tables = [f"## {table.title}\n\n{table.about}\n\n{markdown(rows)}\n" for table, rows in self.tables()]
        about = {"before": self.before, "now": self.now, "conditions": conditions(self.record)}
        return TEMPLATE.substitute(about, tables="\n".join(tables))

    def tables(self) -> list[tuple[Table, list[list[str]]]]:
        """Those about something that was measured, each with a row of ratios."""
        figures, names = Figures(self.record.samples), {self.before: self.before, self.now: self.now}
        filled = [(table, table.rows(figures, names)) for table in map(compared, TABLES)]
        return [(table, [*rows, self.ratios(table, figures)]) for table, rows in filled if rows]

    def ratios(self, table: Table, figures: Figures) -> list[str]:
        def ratio(column: Column) -> str:
            found = figures.ratio(self.now, self.before, column.cell, column.measure)
            return spread(found) if found else ABSENT

        return ["ratio", *(ratio(column) for column in table.columns if column.cell in figures.cells())]


def compared(table: Table) -> Table:
    return replace(table, columns=tuple(column for column in table.columns if column.measure in COMPARED))


def compare_pythons(root: Path, cells: Sequence[Cell], rounds: int) -> TwoPythons:
    """Measure hotseat on both and print the tables."""
    share, samples = Share(), []
    ours, theirs = replace(HOTSEAT, name=f"Python {python_number()}"), within(root)
    if ours.name == theirs.name:
        raise Failure(f"{root} has {ours.name}, as the system does: give a directory with another version")
    for sample in run_rounds([ours, theirs], cells, rounds):
        tell(sample)
        samples.append(sample)
    builds = {ours.name: f"of {distribution(MACHINE)}", theirs.name: f"of {distribution(root)}"}
    result = TwoPythons(with_builds(recorded(samples, [HOTSEAT.name], rounds, share), builds), ours.name, theirs.name)
    print("\n" + "\n\n".join(f"{table.title}\n{plain(rows)}" for table, rows in result.tables()))
    return result


def with_builds(record: Record, builds: dict[str, str]) -> Record:
    """Both instead of the one that every run has."""
    others = {name: number for name, number in record.versions.items() if name != "CPython"}
    return replace(record, versions=builds | others)
