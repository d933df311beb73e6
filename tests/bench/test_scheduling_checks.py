"""The targets for scheduling: which are met, which are missed, and which were not measured."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from bench.scheduling.__main__ import main
from bench.scheduling.chart import chart
from bench.scheduling.checks import Side, Verdict, gain, is_worse_in_all, verdicts
from bench.scheduling.costs import Cost
from bench.scheduling.page import page
from bench.scheduling.record import Record
from bench.scheduling.runs import Cell, outcome

from hotseat.simulation.results import Figures

if TYPE_CHECKING:
    from pathlib import Path

CELLS = [Cell("g", 1, decider) for decider in ("fifo", "collate", "ollama", "turns", "clairvoyant")]


@pytest.fixture(scope="module")
def record() -> Record:
    return Record("2026-01-01", "a machine", 1.0, tuple(map(outcome, CELLS)))


def figures(client_mean_s: float, longest_wait_s: float, makespan_s: float) -> Figures:
    return Figures(1, 0, 1, makespan_s, 1.0, 1.0, 1.0, 1.0, 1.0, longest_wait_s, client_mean_s, 1.0, 1.0, 0.0)


def test_only_what_was_measured_is_judged(record: Record) -> None:
    """A run of one workload is judged by the targets for it."""
    found = [verdict.promise for verdict in verdicts(record)]

    assert found == [
        "g: share of runs identical to collate's",
        "longest wait / bound, workloads where one model fits",
    ]


def test_one_model_is_served_as_by_the_plain_rule(record: Record) -> None:
    """With nothing to decide, every request has the same times."""
    assert all(verdict.holds for verdict in verdicts(record))


def test_a_difference_in_any_request_is_noticed(record: Record) -> None:
    """Runs are identical only if every time is equal."""
    other = tuple(replace(each, fingerprint=each.cell.decider) for each in record.outcomes)

    assert not verdicts(replace(record, outcomes=other))[0].holds


def test_a_cost_is_judged_by_the_requested_queue_length(record: Record) -> None:
    """If the queue could not be filled in time, the cost is measured with a shorter one and still judged."""
    slow = Cost("crowded", 1000, 64, 700, us_per_event=501.0, requested=10_000)

    assert [verdict.holds for verdict in verdicts(replace(record, costs=(slow,)))] == [True, True, False]


@pytest.mark.parametrize(
    ("ours", "theirs", "worse"),
    [
        ((10.3, 5.1, 101.0), (10.0, 5.0, 100.0), True),
        ((10.1, 5.1, 101.0), (10.0, 5.0, 100.0), False),
        ((10.3, 4.9, 101.0), (10.0, 5.0, 100.0), False),
    ],
)
def test_worse_in_everything_means_everything(
    ours: tuple[float, float, float], theirs: tuple[float, float, float], worse: bool
) -> None:
    """Worse means by more than 2 % in the mean, and by any amount in longest wait and makespan."""
    assert is_worse_in_all((figures(*ours), figures(*theirs))) is worse


def test_gains_are_averaged_as_ratios() -> None:
    """Twice as good and half as good average to equally good."""
    pairs = [(figures(1.0, 0, 0), figures(2.0, 0, 0)), (figures(2.0, 0, 0), figures(1.0, 0, 0))]

    assert gain(pairs) == pytest.approx(1.0)


def test_a_verdict_says_what_was_promised_and_measured() -> None:
    """A failure can be understood without another file."""
    assert str(Verdict("a: loads", 0.2, Side.AT_MOST, 0.125)) == "MISSED: a: loads ≤ 0.125 (measured 0.2)"


def test_a_record_survives_its_file(record: Record, tmp_path: Path) -> None:
    """A report can be made again from what was written."""
    record.write(tmp_path / "record.json")

    assert Record.read(tmp_path / "record.json") == record


@pytest.mark.parametrize(("fingerprint", "code"), [("the same", 0), ("", 1)])
def test_a_broken_promise_is_an_exit_code(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fingerprint: str, code: int
) -> None:
    """A script can then check the scheduler against its targets."""
    outcomes = [replace(each, fingerprint=fingerprint or each.cell.decider) for each in record.outcomes]
    replace(record, outcomes=tuple(outcomes)).write(tmp_path / "record.json")
    monkeypatch.setattr(sys, "argv", ["bench", "--from", str(tmp_path / "record.json"), "--check"])

    assert main() == code


def test_the_report_shows_the_run(record: Record) -> None:
    """The page has its tables and targets, and the chart is well-formed."""
    written = page(record)

    assert "| g: one model | 1 | 1 | 1 | 1 | 1 |" in written
    assert "| g: share of runs identical to collate's | ≥ 1 | 1 | met |" in written
    assert ElementTree.fromstring(chart(record)).tag.endswith("svg")
