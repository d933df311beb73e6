"""What was learned is kept across restarts, and nothing fails for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hotseat.journal import Entry
from hotseat.keeper import BETWEEN_SAVES_S, Keeper, state_file
from hotseat.scheduling.events import ClockReached, UpstreamReady
from hotseat.scheduling.habits import Habits
from hotseat.terms import Address, LaunchId, ModelName, Upstream

if TYPE_CHECKING:
    from pathlib import Path

QWEN = ModelName("qwen")
READY = Entry(1, 0.0, UpstreamReady(QWEN, LaunchId(1), Upstream(Address("localhost", 1))), ())


def learned(seconds: float) -> Habits:
    habits = Habits()
    habits.loaded(QWEN, seconds)
    return habits


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({"STATE_DIRECTORY": "/var/lib/hotseat:/x", "HOME": "/root"}, "/var/lib/hotseat/habits.json"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/root"}, "/state/hotseat/habits.json"),
        ({"HOME": "/home/ann"}, "/home/ann/.local/state/hotseat/habits.json"),
    ],
)
def test_where_it_is_kept(environ: dict[str, str], file: str) -> None:
    """Where systemd says, else where a desktop keeps such things."""
    assert str(state_file(environ)) == file


def test_a_restart(tmp_path: Path) -> None:
    """The next run begins with what this one learned; other models in the file stay."""
    file = tmp_path / "deep" / "habits.json"
    Keeper(file, learned(12)).save()
    file.write_text(json.dumps({**json.loads(file.read_text()), "other": {"load_s": 3}}))
    again = Habits()
    keeper = Keeper(file, again)
    keeper.recall()
    keeper.save()

    assert again.load_s(QWEN) == 12
    assert json.loads(file.read_text())["other"]["load_s"] == 3
    assert [each.name for each in file.parent.iterdir()] == ["habits.json"]


def test_loads_are_written_down_now_and_then(tmp_path: Path) -> None:
    """A busy house does not write at every load."""
    now = 0.0
    habits, file = learned(1), tmp_path / "habits.json"
    keeper = Keeper(file, habits, clock=lambda: now)
    keeper.watch(Entry(1, 0.0, ClockReached(), ()))
    assert not file.exists()
    keeper.watch(READY)
    habits.loaded(QWEN, 11)
    keeper.watch(READY)
    assert json.loads(file.read_text())["qwen"]["load_s"] == 1
    now = BETWEEN_SAVES_S
    keeper.watch(READY)

    assert json.loads(file.read_text())["qwen"]["load_s"] == 4


@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_a_file_that_is_none_of_ours(tmp_path: Path, content: str) -> None:
    """It is passed over, and replaced at the next occasion."""
    file = tmp_path / "habits.json"
    file.write_text(content)
    keeper = Keeper(file, learned(5))
    keeper.recall()
    keeper.save()

    assert json.loads(file.read_text())["qwen"]["load_s"] == 5


def test_a_place_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Said once; everything else goes on."""
    (tmp_path / "file").write_text("")
    keeper = Keeper(tmp_path / "file" / "habits.json", learned(5))
    for _ in range(2):
        keeper.save()

    assert [record.message.partition(" file=")[0] for record in caplog.records] == ["what was learned cannot be kept"]
