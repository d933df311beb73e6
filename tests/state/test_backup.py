"""The commands of docs/howto/backup.md, followed with a hotseat that runs and with one that was stopped."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

from tests.support.hotseat import Hotseat
from tests.support.page_blocks import file_of
from tests.support.stubs import stub

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "howto/backup.md"
CONFIG = {"activity": {"keepDays": 1}, "models": {"small": stub("small")}}


def follow(script: str, *words: Path) -> None:
    done = subprocess.run(["sh", "-c", file_of(PAGE, script), script, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_backup_of_a_running_hotseat_is_restored(tmp_path: Path) -> None:
    """It has what was written so far, and the restored hotseat has its keys, its records and what operators set."""
    state, backup = tmp_path / "state/hotseat", tmp_path / "backup"
    with Hotseat(CONFIG, tmp_path) as hotseat:
        hotseat.call("PUT", "/hotseat/models/small/overrides", {"pinned": True})
        key = hotseat.cli("keys", "create", "ann", "--role", "admin", "--yes").stdout.strip()
        hotseat.chat("small", Authorization=f"Bearer {key}")
        for asked in ("usage", "activity"):  # the answer comes from the file, when all is written
            assert "ann" in hotseat.cli(asked, HOTSEAT_API_KEY=key).stdout
        with closing(sqlite3.connect(state / "usage.sqlite3")) as reader:
            reader.execute("select * from usage")  # so that the write-ahead log stays
            reader.executescript("begin immediate; update usage set requests = 7; commit; begin; select * from usage;")
            follow("backup.sh", state, backup)
    audit = (backup / "audit.jsonl").read_text()
    shutil.rmtree(state)
    state.mkdir()
    (state / "usage.sqlite3-wal").write_bytes(b"of another file")
    follow("restore.sh", backup, state)

    with Hotseat(CONFIG, tmp_path) as hotseat:
        ann = {"Authorization": f"Bearer {key}"}
        (model,) = hotseat.call("GET", "/hotseat/models", **ann).json()["models"]
        used = json.loads(hotseat.cli("usage", "--json", "--days", "2", HOTSEAT_API_KEY=key).stdout)
        requests = hotseat.call("GET", "/hotseat/activity", **ann).json()["requests"]
        refused = hotseat.call("GET", "/hotseat/models")

    assert refused.status == 401
    assert model["pinned"]
    assert used["total"]["requests"] == 7
    assert [request["client"] for request in requests] == ["ann"]
    assert (state / "audit.jsonl").read_text().startswith(audit)
    assert '"POST /hotseat/keys/ann"' in audit
    with closing(sqlite3.connect(state / "usage.sqlite3")) as file:
        assert file.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_backup_of_a_hotseat_that_has_stored_nothing(tmp_path: Path) -> None:
    """It is empty, and no error."""
    (tmp_path / "state").mkdir()
    follow("backup.sh", tmp_path / "state", tmp_path / "backup")

    assert [*(tmp_path / "backup").iterdir()] == []
