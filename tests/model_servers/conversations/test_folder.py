"""Each hotseat has a private folder for saved conversations, and none is left when nobody uses it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.llama import REPOSITORY

from hotseat.model_servers.conversations.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from hotseat.model_servers.conversations.folder import Folder
folder = Folder(Path(sys.argv[1]))
print(folder.opened(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tmp_path / "hotseat" / "conversations"


def folders(parent: Path) -> list[Path]:
    return [*parent.iterdir()] if parent.exists() else []


def test_a_folder_is_private_and_removed_at_the_end(parent: Path) -> None:
    """With whatever is in it."""
    folder = Folder(parent)
    path = folder.opened()
    (path / "file").write_text("prompt")

    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert folder.opened() == path
    assert folder.names() == ["file"]
    folder.close()
    assert folders(parent) == []
    assert folder.names() == []


def test_nothing_is_created_before_it_is_needed(parent: Path) -> None:
    """Where nobody keeps conversations, there is no folder."""
    folder = Folder(parent)
    folder.remove_leftovers()
    folder.close()

    assert not parent.exists()


def test_the_folder_of_a_running_hotseat_stays_and_that_of_a_killed_one_is_removed(parent: Path) -> None:
    """Two hotseats side by side have a folder each; kill -9 leaves one behind."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )
    with other:
        assert other.stdout
        theirs = other.stdout.readline().strip()
        ours = Folder(parent)
        ours.opened()
        ours.remove_leftovers()
        assert len(folders(parent)) == 2
        other.send_signal(signal.SIGKILL)
    assert os.path.isdir(theirs)
    Folder(parent).remove_leftovers()

    assert folders(parent) == [ours.opened()]
    ours.close()


def test_a_folder_without_a_lock_is_a_leftover(parent: Path) -> None:
    """It was killed between creating its folder and locking it. Other files and folders are not ours to remove."""
    leftover = parent / "0123456789abcdef"
    leftover.mkdir(parents=True)
    (leftover / "x.slot").touch()
    (parent / "alice").mkdir()
    (parent / "note").touch()
    (parent / "link").symlink_to(parent.parent, target_is_directory=True)
    Folder(parent).remove_leftovers()

    assert {path.name for path in folders(parent)} == {"note", "link", "alice"}


def test_a_folder_that_was_handed_over_stays_locked(parent: Path) -> None:
    """Whoever hands it over does not remove it; the one that has it does."""
    former, successor = Folder(parent), Folder(parent)
    path = former.opened()
    assert former.shared is not None
    assert successor.take(path, os.dup(former.shared[1]))
    former.leave()
    former.close()
    Folder(parent).remove_leftovers()

    assert folders(parent) == [path] == [successor.opened()]
    successor.close()
    assert folders(parent) == []


def test_a_folder_that_was_left_is_taken_by_one(parent: Path) -> None:
    """Its hotseat was killed: the first that finds its lock free has it."""
    former, first, second = Folder(parent), Folder(parent), Folder(parent)
    path = former.opened()
    assert not first.take(path)
    former.leave()

    assert first.take(path)
    assert not second.take(path)
    assert first.shared is not None
    assert second.shared is None
    first.close()


@pytest.mark.parametrize("name", ["missing/0123456789abcdef", "0123456789abcdef", "alice"])
def test_only_a_folder_of_hotseat_is_taken(parent: Path, name: str) -> None:
    """It is removed at the end, so it must not be any other."""
    (parent / "alice").mkdir(parents=True)

    assert not Folder(parent).take(parent / name)
    assert not (parent / "alice" / "lock").exists()


def test_a_folder_that_somebody_removed_is_created_again(parent: Path) -> None:
    """A server would not start without it."""
    folder = Folder(parent)
    first = folder.opened()
    (first / "lock").unlink()
    first.rmdir()
    second = folder.opened()

    assert second.is_dir()
    assert second != first
    folder.close()


def test_a_folder_that_cannot_be_created(parent: Path) -> None:
    """The caller is told why."""
    parent.parent.mkdir()
    parent.touch()

    with pytest.raises(OSError, match="conversations"):
        Folder(parent).opened()


def test_a_disk_without_locks(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is saved there, and no folder is left."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="can be locked"):
        Folder(parent).opened()

    assert folders(parent) == []


def test_a_folder_that_another_hotseat_takes_for_a_leftover(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was removed between its creation and its lock: the next attempt succeeds."""
    lock = fcntl.flock
    removed: list[Path] = []

    def after_removal(file: int, how: int) -> None:
        if not removed:
            removed.extend(folders(parent))
            shutil.rmtree(removed[0])
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", after_removal)
    folder = Folder(parent)
    path = folder.opened()

    assert folders(parent) == [path]
    assert removed != [path]
    folder.close()


def test_what_cannot_be_removed_is_logged(parent: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And the rest is removed."""
    folder = Folder(parent)
    (folder.opened() / "directory").mkdir()
    (folder.opened() / "file").touch()
    folder.remove(["directory", "missing", "file"])

    assert folder.names() == ["directory"]
    assert "a saved conversation cannot be removed" in caplog.text
    folder.close()
