"""Files that another process has stored are continued, and those of a newer version are neither used nor damaged.

stored/ is the state directory of a program that served the models `small` and `spare`, to one request, on 2026-11-17.
A change that cannot read it breaks what docs/reference/stability.md promises.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.stubs import stub

from hotseat.state.fleet_state import FleetState
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Iterator

STORED = Path(__file__).parent / "stored"

CONFIG = {
    "activity": {"keepDays": 36500},
    "devices": {"cpu": {"memory": "4GiB"}},
    "models": {"small": stub("small"), "spare": stub("spare")},
}
SECRET = "hs-JCHNd-MmNKwt91_NLF4XDz_sf3xboN-MfjXMDCm06L0"
"""Of the key `ann`; nothing else accepts it."""
ANN = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of `Hotseat`."""
    return tmp_path / "state/hotseat"


@pytest.fixture
def continued(tmp_path: Path, state: Path) -> Iterator[Hotseat]:
    """A hotseat that starts with the stored files; usage has today's date, since older usage is deleted."""
    shutil.copytree(STORED, state)
    with closing(sqlite3.connect(state / "usage.sqlite3")) as file:
        file.executescript("update usage set day = date('now')")
    with Hotseat(CONFIG, tmp_path) as hotseat:
        yield hotseat


def test_what_was_stored_is_continued(continued: Hotseat, state: Path) -> None:
    """Key, usage, finished requests, load times, overrides and audit are there, and new ones are added."""
    refused, accepted = continued.chat("small"), continued.chat("small", 4, **ANN)
    small, spare = continued.call("GET", "/hotseat/models", **ANN).json()["models"]
    requests = continued.call("GET", "/hotseat/activity", **ANN).json()["requests"]
    continued.call("DELETE", "/upstream/small", **ANN)
    usage = json.loads(continued.cli("usage", "--json", "--by", "key", "--days", "2", HOTSEAT_API_KEY=SECRET).stdout)

    assert (refused.status, accepted.status) == (401, 200)
    assert 0.09 < small["load_s"] < 0.2
    assert (spare["pinned"], spare["ttl"]) == (True, 600)
    assert [request["model"] for request in requests] == ["small", "small"]
    assert (requests[0]["prompt_tokens"], requests[0]["why"]) == (20, "waited for small to load")
    assert [(row["key"], row["requests"], row["prompt_tokens"]) for row in usage["usage"]] == [("ann", 2, 21)]
    before, audit = (STORED / "audit.jsonl").read_text(), (state / "audit.jsonl").read_text()
    assert audit.startswith(before)
    assert '"DELETE /upstream/small"' in audit.removeprefix(before)


def test_the_name_and_the_orders_that_were_stored(tmp_path: Path) -> None:
    """A host of a fleet keeps the token by which it gets its name again, and is still cordoned."""
    kept = shutil.copy(STORED / "fleet.json", tmp_path)
    state = FleetState(StateFile(Path(kept)), "hotseat/gpu1", {})

    assert (state.token[:8], state.orders) == ("1d671639", frozenset({"cordon"}))


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
