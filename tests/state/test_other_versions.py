"""The files of an earlier version are continued, and those of a newer one are neither used nor damaged.

earlier/first was written by the program as of 2026-11-16, the first that stored what operators set, and earlier/second
by that of 2026-11-17. Both served the models `small` and `spare`, to one request. Version 0.1.0 stored nothing.
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
    from collections.abc import Callable, Iterator

EARLIER = Path(__file__).parent / "earlier"
CONFIG = {
    "activity": {"keepDays": 36500},
    "devices": {"cpu": {"memory": "4GiB"}},
    "models": {"small": stub("small"), "spare": stub("spare")},
}
SECRET = "hs-JCHNd-MmNKwt91_NLF4XDz_sf3xboN-MfjXMDCm06L0"
"""Of the key `ann` in earlier/second; nothing else accepts it."""
LOADED = "waited for small to load"
ANN = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of `Hotseat`."""
    return tmp_path / "state/hotseat"


@pytest.fixture
def continued(tmp_path: Path, state: Path) -> Iterator[Callable[[str], Hotseat]]:
    started: list[Hotseat] = []

    def start(earlier: str) -> Hotseat:
        shutil.copytree(EARLIER / earlier, state)
        if (state / "usage.sqlite3").exists():
            date_today(state / "usage.sqlite3")
        started.append(Hotseat(CONFIG, tmp_path).__enter__())
        return started[-1]

    yield start
    for hotseat in started:
        hotseat.__exit__()


def date_today(usage: Path) -> None:
    """Usage of more than 400 days ago is deleted."""
    with closing(sqlite3.connect(usage)) as file:
        file.executescript("update usage set day = date('now')")


@pytest.mark.parametrize(("earlier", "headers", "why"), [("first", {}, ""), ("second", ANN, LOADED)])
def test_what_an_earlier_version_stored(
    continued: Callable[[str], Hotseat], earlier: str, headers: dict[str, str], why: str
) -> None:
    """Finished requests, what was learned and what operators set are there, and new requests are added."""
    hotseat = continued(earlier)
    small, spare = hotseat.call("GET", "/hotseat/models", **headers).json()["models"]
    new = hotseat.chat("small", 4, **headers)
    requests = hotseat.call("GET", "/hotseat/activity", **headers).json()["requests"]

    assert 0.09 < small["load_s"] < 0.2
    assert (spare["pinned"], spare["ttl"]) == (True, 600)
    assert new.status == 200
    assert [request["model"] for request in requests] == ["small", "small"]
    assert (requests[0]["prompt_tokens"], requests[0]["completion_tokens"], requests[0]["why"]) == (20, 4, why)


def test_the_keys_the_usage_and_the_audit_of_an_earlier_version(
    continued: Callable[[str], Hotseat], state: Path
) -> None:
    """A created key still opens the server, its usage is counted on, and the audit goes on after its last line."""
    before = (EARLIER / "second/audit.jsonl").read_text()
    hotseat = continued("second")
    refused, accepted = hotseat.chat("small"), hotseat.chat("small", 4, **ANN)
    hotseat.call("DELETE", "/upstream/small", **ANN)
    rows = json.loads(hotseat.cli("usage", "--json", "--by", "key", "--days", "2", HOTSEAT_API_KEY=SECRET).stdout)

    assert (refused.status, accepted.status) == (401, 200)
    assert [(row["key"], row["requests"], row["prompt_tokens"]) for row in rows["usage"]] == [("ann", 2, 21)]
    assert (state / "audit.jsonl").read_text().startswith(before)
    assert '"DELETE /upstream/small"' in (state / "audit.jsonl").read_text().removeprefix(before)
    assert '"event": "refused"' in (state / "audit-unprivileged.jsonl").read_text()


def test_the_name_and_the_orders_of_an_earlier_version(tmp_path: Path) -> None:
    """A host of a fleet keeps the token by which it gets its name again, and is still cordoned."""
    kept = shutil.copy(EARLIER / "second/fleet.json", tmp_path)
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
    shutil.copytree(EARLIER / "first", state)
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
