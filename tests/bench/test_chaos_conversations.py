"""The chaos test stops servers at the right moment, damages files, and notices an exceeded budget."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from bench.chaos import conversation_faults
from bench.chaos.conversation_faults import ConversationDisk, files, parts, saved
from bench.chaos.file_moments import HeldFiles, OpenedFiles, is_stopped, state_of
from bench.chaos.hotseat_process import HotseatProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDS = "import sys; sys.stdin.readline(); held = open(sys.argv[1], 'w'); sys.stdin.readline()"
PATIENCE_S = 30.0


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Opens a file of the folder when it gets a line, and holds it open."""
    argv = [sys.executable, "-I", "-S", "-c", HOLDS, str(tmp_path / "new.part")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0) as process:
        yield process
        process.kill()


@pytest.fixture
def rig(tmp_path: Path) -> HotseatProcess:
    """A hotseat that was never started and has saved two conversations."""
    rig = HotseatProcess(tmp_path / "rig")
    folder = rig.cache / "hotseat/conversations/0123456789abcdef"
    folder.mkdir(parents=True)
    for name in ("lock", "a.slot", "b.slot", "c.part"):
        (folder / name).write_bytes(b"x" * 1000)
    return rig


def test_a_process_is_stopped_while_it_has_the_file_open(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The folder is watched before the process is told to open it."""
    with OpenedFiles(tmp_path) as opened:
        tell(process)

        assert opened.stops(process.pid, ".part", PATIENCE_S)
        assert is_stopped(process.pid)


def test_a_process_that_does_not_have_the_file_open_goes_on(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Another one has opened it, or it is closed already."""
    with OpenedFiles(tmp_path) as opened:
        (tmp_path / "other.part").touch()

        assert not opened.stops(process.pid, ".part", PATIENCE_S)
        eventually(lambda: state_of(process.pid) != b"T")


def test_a_file_that_nobody_opens(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Files with other names do not count."""
    with OpenedFiles(tmp_path) as opened:
        (tmp_path / "kept.slot").touch()

        assert not opened.stops(process.pid, ".part", 0.01)
    with pytest.raises(FileNotFoundError):
        OpenedFiles(tmp_path / "missing")


async def test_a_process_waits_for_a_file_that_is_held(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Until it is released; so does any other process, and a file that is open cannot be held."""
    path = tmp_path / "new.part"
    path.touch()
    with HeldFiles([path]) as held:
        assert not await held.is_wanted(0.01)
        tell(process)
        assert await held.is_wanted(PATIENCE_S)
    eventually(lambda: str(path) in open_files(process.pid))

    with pytest.raises(OSError, match="temporarily unavailable"):
        HeldFiles([path])


def open_files(pid: int) -> list[str]:
    return [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]


def tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.write(b"\n")


@pytest.mark.parametrize("damage", ["truncate", "replace", "remove", "remove_folder"])
def test_only_whole_conversations_are_damaged(rig: HotseatProcess, damage: str) -> None:
    """What a server writes is its own business, unless its folder goes."""
    disk = ConversationDisk(rig, random.Random(1))
    before = {path: path.read_bytes() for path in files(rig)}
    getattr(disk, damage)()
    changed = [path for path, data in before.items() if not path.exists() or path.read_bytes() != data]

    assert disk.damaged == 1
    assert {path.suffix for path in changed} == ({".slot", ".part"} if damage == "remove_folder" else {".slot"})


async def test_an_exceeded_budget_is_noticed(rig: HotseatProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts count, locks do not."""
    monkeypatch.setattr(conversation_faults, "OBEYS_WITHIN_S", -1.0)
    disk, is_over = ConversationDisk(rig, random.Random(1)), asyncio.Event()
    rig.disk = 2999

    assert "took 3000 bytes" in (await disk.watch(is_over) or "")
    assert (len(saved(rig)), len(parts(rig)), disk.most) == (2, 1, 3000)
