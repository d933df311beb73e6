"""Files of a newer version are neither used nor damaged."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.stubs import stub

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {
    "activity": {"keepDays": 36500},
    "devices": {"cpu": {"memory": "4GiB"}},
    "models": {"small": stub("small"), "spare": stub("spare")},
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of `Hotseat`."""
    return tmp_path / "state/hotseat"


@pytest.mark.parametrize("name", ["learned.json", "overrides.json"])
def test_figures_and_overrides_of_a_newer_version(tmp_path: Path, state: Path, name: str) -> None:
    """The program works without them, says so, and sets the file aside before it writes its own."""
    newer = json.dumps({"format": 2, "models": {"spare": {"pinned": True}}, "anything": "else"})
    state.mkdir(parents=True)
    (state / name).write_text(newer)
    with Hotseat(CONFIG, tmp_path) as hotseat:
        assert hotseat.chat("small").status == 200
        assert hotseat.call("PUT", "/hotseat/models/small/overrides", {"pinned": True}).status == 200
        hotseat.terminate()
        said = hotseat.log()

    assert "stored state was written by a newer version and is not used" in said
    assert "was written by a newer version of hotseat (format 2; this version reads 1). Reinstall that version" in said
    kept = state / f"{name}.format-2"
    assert f'"the file of a newer version was kept", "file": "{kept}"' in said
    assert kept.read_text() == newer
    assert json.loads((state / name).read_text())["format"] == 1


@pytest.mark.parametrize("name", ["activity.sqlite3", "usage.sqlite3"])
def test_records_of_a_newer_version(tmp_path: Path, state: Path, name: str) -> None:
    """The program serves, says that it stores none, and leaves the file as it is."""
    state.mkdir(parents=True)
    with closing(sqlite3.connect(state / name)) as file:
        file.executescript("create table newer (thing); insert into newer values (7); pragma user_version = 9;")
    before = (state / name).read_bytes()
    with Hotseat(CONFIG, tmp_path) as hotseat:
        assert hotseat.chat("small").status == 200
        hotseat.terminate()
        said = hotseat.log()

    assert "records cannot be stored on disk" in said
    assert "was written by a newer version of hotseat (format 9;" in said
    assert (state / name).read_bytes() == before


def test_keys_of_a_newer_version(tmp_path: Path, state: Path) -> None:
    """The program refuses to start, since it cannot know who may do what, and says what to do."""
    newer = json.dumps({"format": 2, "keys": []})
    state.mkdir(parents=True)
    (state / "keys.json").write_text(newer)
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    command = [str(PROGRAM), "serve", "--config", str(tmp_path / "config.yaml"), "--listen", "127.0.0.1:1"]
    environ = {**os.environ, "XDG_STATE_HOME": str(state.parent)}
    refused = subprocess.run(command, env=environ, capture_output=True, text=True)

    assert refused.returncode == 3
    assert "keys.json was written by a newer version of hotseat (format 2; this version reads 1)" in refused.stderr
    assert (state / "keys.json").read_text() == newer
