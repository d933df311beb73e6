"""The targets for scheduling: which are met, which are missed, and which were not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.scheduling.checks import Record, mix_promises, verdicts
from bench.scheduling.comparison import Summary
from bench.scheduling.costs import Cost
from bench.scheduling.runs import Cell, outcome

CELLS = [Cell("g", 1, decider) for decider in ("fifo", "collate", "ollama", "turns", "clairvoyant")]


@pytest.fixture(scope="module")
def record() -> Record:
    return Record("2026-01-01", "a machine", 1.0, tuple(map(outcome, CELLS)))


BEFORE = Summary(
    mixes=100,
    no_worse=0.80,
    gain=1.1,
    longest_wait=1.05,
    makespan=1.0,
    loads=1.0,
    worse_in_all=(1, 2),
    worst=0.5,
    best=2.0,
    share_of_bound=0.5,
)
FLOOR = replace(BEFORE, no_worse=0.95, gain=1.0, longest_wait=1.0, worse_in_all=(3,))
BETTER = replace(BEFORE, no_worse=0.85, gain=1.2, worse_in_all=())


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
    ("after", "held"),
    [
        (BETTER, [True, True, True, True, True]),
        (BEFORE, [False, False, True, True, True]),
        (replace(BETTER, gain=1.09999, longest_wait=1.04999), [True, True, False, False, True]),
        (replace(BETTER, gain=1.09), [True, True, False, True, True]),
        (replace(BETTER, longest_wait=1.04), [True, True, True, False, True]),
        (replace(BETTER, share_of_bound=1.01), [True, True, True, True, False]),
    ],
)
def test_a_policy_must_be_better_than_the_baseline(after: Summary, held: list[bool]) -> None:
    """Four points more no worse than collate, none worse in everything, and nothing given back for it."""
    assert [verdict.holds for verdict in mix_promises("mixes", after, BEFORE, FLOOR)] == held


def test_the_scheduler_of_the_baseline_is_no_worse_than_itself() -> None:
    """Digits that were not kept make no difference."""
    kept = replace(BEFORE, gain=1.1554, longest_wait=1.0436)
    *_, gain, wait, _ = mix_promises("mixes", replace(BEFORE, gain=1.15536, longest_wait=1.04358), kept, FLOOR)

    assert (gain.holds, wait.holds) == (True, True)


def test_a_promise_about_mixes_has_baseline_and_noise_floor_beside_it() -> None:
    """What could be reached at all can be seen without another file."""
    first, second, *_ = mix_promises("mixes", BETTER, BEFORE, FLOOR)

    assert first.promise == "mixes: share no worse than collate (baseline 0.8, collate itself 0.95)"
    assert second.promise == "mixes: worse than collate in everything (baseline 2, collate itself 1)"


def test_the_one_who_waits_beside_busy_clients_is_judged_by_seconds(record: Record) -> None:
    """The workload has a single request of the model that is not loaded."""
    waited = replace(record, outcomes=(outcome(Cell("f4", 1, "turns")),))

    assert "f4: seconds until the one request is answered" in [verdict.promise for verdict in verdicts(waited)]
