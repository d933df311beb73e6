"""What comparisons of policies keep: the gains of an earlier scheduler, and the outcomes of other policies."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from bench.scheduling import expected, runs
from bench.scheduling.__main__ import main
from bench.scheduling.comparison import Gains, Mix
from bench.scheduling.mixes import FAMILIES, HELD_OUT, TUNING
from bench.scheduling.runs import COLLATE, TURNS, Cell, mix_cells, outcome, outcomes

if TYPE_CHECKING:
    from pathlib import Path

OURS, THEIRS = Cell("g", 1, TURNS), Cell("g", 1, COLLATE)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seeds", [TUNING, HELD_OUT])
def test_every_mix_has_a_baseline(family: str, seeds: range) -> None:
    """So a policy can be compared with it on any number of mixes."""
    found = expected.baseline(family, seeds[: FAMILIES[family].count])

    assert found is not None
    assert found.mixes == FAMILIES[family].count


def test_a_baseline_that_lacks_a_mix_is_none() -> None:
    """Two shares over different mixes would compare the mixes."""
    assert expected.baseline("mix", [HELD_OUT[0], 1]) is None
    assert expected.baseline("mix", []) is None


def test_a_written_baseline_is_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each mix."""
    monkeypatch.setattr(expected, "BASELINE", tmp_path / "baseline.json")
    mixes = [Mix(1, Gains(1.5, 0.5, 1.0, 2.0), is_worse_in_all=False, share_of_bound=0.25)]
    assert expected.read_baseline() == {}
    expected.BASELINE.write_text(expected.as_text({"mix": mixes, "agents": []}))

    assert expected.read_baseline() == {"mix": mixes, "agents": []}


def test_collate_is_played_with_twice_the_jitters() -> None:
    """One half is compared with hotseat, the other with the first half."""
    found = [(cell.decider, cell.jitter) for cell in mix_cells([1], 2) if cell.scenario == "mix"]

    assert found == [(COLLATE, 1), (COLLATE, 2), (COLLATE, 3), (COLLATE, 4), (TURNS, 1), (TURNS, 2)]


def test_only_the_scheduler_is_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcomes of other policies come from the file, hotseat's never do."""
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    marked = [replace(outcome(cell), fingerprint="from the file") for cell in (OURS, THEIRS)]
    runs.write(msgspec.json.encode(marked[1:]))
    ours, theirs = outcomes([OURS, THEIRS], print)

    assert ours == outcome(OURS)
    assert theirs == marked[1]


def test_outcomes_of_other_policies_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the next time, until the code that they depend on changes."""
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    assert runs.read() == b""
    outcomes([OURS, THEIRS], print)
    kept = msgspec.json.decode(runs.read())
    monkeypatch.setattr(runs, "DIGEST", "of other code")

    assert [each["cell"]["decider"] for each in kept] == [COLLATE]
    assert runs.read() == b""


def test_the_digest_depends_on_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the simulator or of a policy makes the kept outcomes worthless."""
    assert runs.digest() == runs.DIGEST
    monkeypatch.setattr(runs, "SOURCES", runs.SOURCES[1:])

    assert runs.digest() != runs.DIGEST


def test_policies_are_compared_on_a_few_mixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside hotseat stand the baseline on the same mixes, and the noise floor."""
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", "--mixes", "1", "--jitters", "1"])
    assert main() == 0
    rows = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines() if "collate" in line]

    assert rows == [
        "1 mixes: hotseat against collate",
        "baseline against collate",
        "noise: collate against itself",
        "1 mixes of agents: hotseat against collate",
        "baseline against collate",
        "noise: collate against itself",
    ]
