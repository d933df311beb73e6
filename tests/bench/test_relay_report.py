"""Tables, page and chart show what was measured and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from bench.relay.cells import CELLS
from bench.relay.chart import PANELS, chart
from bench.relay.figures import Figure, Figures, Sample
from bench.relay.page import page
from bench.relay.record import Record, joined
from bench.relay.tables import TABLES, Column, Table, markdown, plain

if TYPE_CHECKING:
    from pathlib import Path

TITLES = {"nginx": "nginx & co", "hotseat": "hotseat"}
SAMPLES = [
    Sample("hotseat", "unary-16", 0, {"cpu_us": 1234.5}),
    Sample("hotseat", "unary-16", 1, {"cpu_us": 1200.0}),
    Sample("nginx", "unary-16", 0, {"cpu_us": 20.0}),
]
COLUMN = Column("CPU-µs", "unary-16", "cpu_us")
TABLE = Table("Requests", "About.", (COLUMN, Column("128", "unary-128", "cpu_us")))


def test_a_figure_is_written_with_its_spread() -> None:
    """The spread is left out where there is none, and what is missing is a dash."""
    assert COLUMN.text(Figure(1217.25, 1200.0, 1234.5)) == "1,217 [1,200–1,234]"
    assert COLUMN.text(Figure(20.0, 20.0, 20.0)) == "20"
    assert Column("ms", "x", "cpu_us", 1e-3, 1).text(Figure(6250.0, 6250.0, 6250.0)) == "6.2"
    assert COLUMN.text(None) == "–"


def test_columns_of_unmeasured_cells_are_left_out() -> None:
    """A run of some cells gives narrower tables, and none for what was left out altogether."""
    rows = TABLE.rows(Figures(SAMPLES), TITLES)

    assert rows == [["", "CPU-µs"], ["nginx & co", "20"], ["hotseat", "1,217 [1,200–1,234]"]]
    assert TABLE.rows(Figures([]), TITLES) == []


def test_tables_line_up() -> None:
    """On a terminal every column begins at one place; in Markdown every row has as many cells as the head."""
    rows = [["", "CPU"], ["nginx", "20"]]

    assert plain(rows) == "       CPU\nnginx  20"
    assert markdown(rows) == "|  | CPU |\n| --- | --- |\n| nginx | 20 |"


def test_every_column_and_panel_is_about_something_that_is_measured() -> None:
    """No table or panel names a cell that does not exist."""
    named = {column.cell for table in TABLES for column in table.columns} | {panel.cell for panel in PANELS}

    assert named <= {cell.key for cell in CELLS}


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    """What is written to JSON is read back as it was."""
    record = Record("2026-01-01", "a machine", {"nginx": "1.2"}, 2, 60.0, SAMPLES)
    record.write(tmp_path / "run.json")

    assert Record.read(tmp_path / "run.json") == record


def test_runs_are_joined_round_after_round() -> None:
    """Rounds of different runs stay separate, and their durations add up."""
    first = Record("2026-01-01", "a machine", {"nginx": "1.2"}, 2, 60.0, SAMPLES, 0.1, 0.5)
    later = Record("2026-01-01", "a machine", {"go": "1"}, 3, 180.0, SAMPLES[:1], 0.2, 0.1)
    both = joined(first, later)

    assert [sample.round for sample in both.samples] == [0, 1, 0, 2]
    assert (both.rounds, both.seconds, both.versions) == (5, 240.0, {"nginx": "1.2", "go": "1"})
    assert both.stolen == pytest.approx(0.175)
    assert both.used_by_others == pytest.approx(0.2)
    assert joined(first, replace(later, stolen=None)).stolen is None


def test_the_page_tells_figures_promises_and_conditions() -> None:
    """The page has the tables of what was measured, the targets, the machine and the versions."""
    text = page(Record("2026-01-01", "a machine", {"nginx": "1.2"}, 2, 60.0, SAMPLES, 0.031), Figures(SAMPLES))

    assert "| hotseat, all duties | 1,217 [1,200–1,234] |" in text
    assert "## Streams" not in text
    assert "| ≤ 2.2 × nginx, proxy_pass | 61.7 [61.7–61.7] | missed |" in text
    assert "- 2026-01-01, 2 rounds, 1 min\n- a machine; 3 % of its time went to other machines\n- nginx 1.2" in text
    assert "$" not in text


def test_the_chart_is_well_formed_and_marks_hotseat() -> None:
    """One bar for each proxy, hotseat's in its own colour, names escaped, no panel without figures."""
    root = ElementTree.fromstring(chart(Figures(SAMPLES), TITLES))
    bars = [element.get("class") for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]

    assert bars == ["bar", "bar ours"]
    assert "nginx & co" in texts
    assert PANELS[1].title not in texts
