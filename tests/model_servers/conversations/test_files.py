"""Which saved conversations there are."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.conversations_disk import LARGER, MIB, QWEN, ConversationsDisk

from hotseat.model_servers.conversations.manager import Kept
from hotseat.model_servers.conversations.saved_file import Origin

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_last_used_comes_first(disk: ConversationsDisk) -> None:
    """Of those that were saved together, the longest."""
    old = await disk.save([1, 2, 3, 4, 5])
    disk.now = 10.0
    short, long = await disk.save([2]), await disk.save([3, 3])

    assert disk.files.usable(QWEN) == [long, short, old]


async def test_a_truncated_file_is_not_whole(disk: ConversationsDisk) -> None:
    """Nor is one that is gone."""
    saved = await disk.save([1, 2, 3])
    with (disk.files.open() / saved.name).open("r+b") as file:
        file.truncate(MIB - 1)
    assert not disk.files.is_whole(saved)
    (disk.files.open() / saved.name).unlink()

    assert not disk.files.is_whole(saved)


async def test_what_a_changed_model_has_saved_is_removed(disk: ConversationsDisk) -> None:
    """Nothing can use it again; other models' files stay."""
    await disk.save([1, 2, 3])
    other = await disk.save([1, 2, 3], LARGER)
    disk.files.drop_outdated(Origin(QWEN.model, "new", MIB))

    await disk.has_only(other)


async def test_a_folder_that_was_removed_has_no_files(disk: ConversationsDisk) -> None:
    """They are not counted any longer."""
    await disk.save([1, 2, 3])
    for path in disk.files.open().iterdir():
        path.unlink()
    disk.files.open().rmdir()
    disk.files.open()

    assert disk.conversations.kept(QWEN.model) == Kept()


async def test_files_of_another_process(disk: ConversationsDisk, tmp_path: Path) -> None:
    """They are as they were there, and what is continued replaces them; a file that is missing is forgotten."""
    first, second = await disk.save([1] * 100), await disk.save([2] * 100)
    disk.now = 60.0
    records, shared = disk.files.records(), disk.files.folder.shared
    assert shared is not None
    path, lock = shared[0], os.dup(shared[1])
    disk.files.leave()
    (path / second.name).unlink()
    after = ConversationsDisk(tmp_path / "conversations")
    after.now = 5.0

    assert after.files.take(path, lock, records)
    assert after.files.usable(QWEN) == [replace(first, used_at=-55.0)]
    assert after.files.named(second.name) is None
    continued = await after.save([1] * 150)
    await after.has_only(continued)
    await after.files.aclose()
    assert not path.exists()
