"""The audit file: every line complete, of several processes, and bounded in size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hotseat.state.audit_file import OLDER, AuditFile

if TYPE_CHECKING:
    from pathlib import Path

LINE = len('{"n": 100000}\n')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.jsonl"


def numbers(*files: Path) -> list[int]:
    return [json.loads(line)["n"] for file in files for line in file.read_text().splitlines()]


def test_lines_are_appended(path: Path) -> None:
    """Another process continues the same file, which only its user may read."""
    AuditFile(path).write({"n": 1})
    AuditFile(path).write({"n": 2})

    assert numbers(path) == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_is_renamed(path: Path) -> None:
    """The newest lines are in the file without a number; of the older files the oldest is dropped."""
    file = AuditFile(path, largest=10 * LINE)
    for n in range(100_000, 100_095):
        file.write({"n": n})
    older = [path.with_name(f"audit.jsonl.{number}") for number in range(OLDER, 0, -1)]

    assert numbers(*older, path) == list(range(100_040, 100_095))
    assert len(list(path.parent.glob("audit.jsonl*"))) == OLDER + 1


WRITER = """
import sys
from pathlib import Path
from hotseat.state.audit_file import AuditFile
file = AuditFile(Path(sys.argv[1]), largest=int(sys.argv[2]))
for n in range(int(sys.argv[3]), int(sys.argv[3]) + 1000):
    file.write({"n": n})
"""


def test_two_processes_write_and_rotate_at_once(path: Path) -> None:
    """As during a restart: no line is lost or mixed with another."""
    largest = 500 * LINE
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(largest), str(first)]) for first in (100_000, 200_000)
    ]
    codes = [writer.wait(60) for writer in writers]
    files = list(path.parent.glob("audit.jsonl*"))

    assert codes == [0, 0]
    assert sorted(numbers(*files)) == [*range(100_000, 101_000), *range(200_000, 201_000)]
    assert len(files) > 2


def test_another_process_was_first_to_rotate(path: Path) -> None:
    """Then there is nothing to do: a fresh file is not renamed."""
    file = AuditFile(path)
    file.write({"n": 1})
    file._rotate()

    assert [each.name for each in path.parent.glob("audit.jsonl*")] == ["audit.jsonl"]


def test_files_that_cannot_be_renamed(path: Path) -> None:
    """The line is in the file all the same."""
    path.with_name("audit.jsonl.5").mkdir(parents=True)
    path.with_name("audit.jsonl.4").touch()
    AuditFile(path, largest=1).write({"n": 1})

    assert numbers(path) == [1]


def test_a_disk_that_takes_only_a_part_of_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is an error, and the next line is a line of its own."""
    file = AuditFile(path)
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:4]))
        with pytest.raises(OSError, match="the disk may be full"):
            file.write({"n": 1})
    file.write({"n": 2})

    assert path.read_text() == '{"n"\n{"n": 2}\n'


def test_a_line_that_an_earlier_process_left_incomplete(path: Path) -> None:
    """It was killed, or the disk was full: the first line of the next process is a line of its own."""
    path.parent.mkdir()
    path.write_text('{"n": 1}\n{"n"')
    file = AuditFile(path)
    for n in (2, 3):
        file.write({"n": n})

    assert path.read_text() == '{"n": 1}\n{"n"\n{"n": 2}\n{"n": 3}\n'


def test_a_folder_that_cannot_be_written(path: Path) -> None:
    """The error reaches whoever wants to act."""
    path.mkdir(parents=True)

    with pytest.raises(OSError, match="Is a directory"):
        AuditFile(path).write({"n": 1})
