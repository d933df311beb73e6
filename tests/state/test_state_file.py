"""The directories of a process, and the lock that only one has."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotseat.settings import ApiKey, Role
from hotseat.state import key_file
from hotseat.state.audit_file import AuditFile
from hotseat.state.key_file import KeyFile
from hotseat.state.state_file import LOCK, conversations_directory, locked

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"CACHE_DIRECTORY": "/var/cache/hotseat:/more", "HOME": "/root"}, "/var/cache/hotseat/conversations"),
        ({"XDG_CACHE_HOME": "/data/cache", "HOME": "/home/ada"}, "/data/cache/hotseat/conversations"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/ada"}, "/home/ada/.cache/hotseat/conversations"),
        ({"HOME": "/home/ada"}, "/home/ada/.cache/hotseat/conversations"),
    ],
)
def test_the_place_is_the_usual_one(environ: dict[str, str], folder: str) -> None:
    """Under systemd its cache directory, else the user's."""
    assert conversations_directory(environ) == Path(folder)


ANN = ApiKey("", Role.ADMIN, "ann", "a" * 64)


@contextmanager
def held_by_another_user(directory: Path) -> Iterator[None]:
    """Whoever may list a directory can lock the directory itself."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def test_another_user_locks_the_directory(tmp_path: Path) -> None:
    """Keys are changed and the audit file is rotated all the same: the lock is a file that others cannot open."""
    with held_by_another_user(tmp_path):
        KeyFile(tmp_path / "keys.json").change(lambda _: (ANN,))
        AuditFile(tmp_path / "audit.jsonl", largest=1).write({"n": 1})

    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "audit.jsonl.1", "keys.json"]
    assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o600


def test_a_lock_that_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys are not changed, and the error names the lock."""
    file = KeyFile(tmp_path / "keys.json")
    monkeypatch.setattr(key_file, "LONGEST_WAIT", 0.05)

    with locked(tmp_path), pytest.raises(TimeoutError, match=f"another process holds the lock {tmp_path / LOCK}"):
        file.change(lambda _: (ANN,))
    assert file.read() == ()


def test_the_audit_file_does_not_wait_for_the_lock(tmp_path: Path) -> None:
    """A file that is due is renamed by the first line after the lock was released: the event loop must not stop."""
    file = AuditFile(tmp_path / "audit.jsonl", largest=1)
    with locked(tmp_path):
        file.write({"n": 1})
        while_held = file.path.exists()
    file.write({"n": 2})

    assert while_held
    assert (tmp_path / "audit.jsonl.1").read_text() == '{"n": 1}\n{"n": 2}\n'
