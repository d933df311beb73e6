"""What is kept of saved conversations, and what the disk budget removes."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers.conversations import files
from hotseat.model_servers.conversations.files import USUAL_TOKEN, Kept, NotKept, SavedFiles
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.slots_api import Moved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from hotseat.model_servers.conversations.saved_file import SavedFile

MIB = 1 << 20
QWEN = Origin(ModelName("qwen"), "f00", weight=MIB)
LARGER = Origin(ModelName("gemma"), "b00", weight=4 * MIB)


class Disk:
    """Saved files with a budget and a clock that the test sets."""

    def __init__(self, parent: Path) -> None:
        self.budget, self.now = 1000 * MIB, 0.0
        self.files = SavedFiles(parent, lambda: self.budget, lambda: self.now, left_free=0)

    @property
    def on_disk(self) -> list[str]:
        return sorted(path.name for path in self.files.open().iterdir() if path.name != "lock")

    async def save(
        self, ids: list[int], origin: Origin = QWEN, size: int = MIB, earlier: SavedFile | None = None
    ) -> SavedFile:
        part = await self.files.begin(origin, len(ids))
        try:
            return await self.finish(part, ids, origin, size, earlier)
        finally:
            self.files.abandon(part)

    async def finish(
        self, part: str, ids: list[int], origin: Origin = QWEN, size: int = MIB, earlier: SavedFile | None = None
    ) -> SavedFile:
        self.write(part, ids, size)
        return await self.files.finish(part, origin, Moved(len(ids), size), self.now, earlier)

    async def save_unknown(self) -> SavedFile:
        """A conversation of three tokens in a format that hotseat cannot read."""
        part = await self.files.begin(QWEN, 3)
        (self.files.open() / part).write_bytes(b"unknown")
        return await self.files.finish(part, QWEN, Moved(3, 7), self.now)

    def write(self, part: str, ids: list[int], size: int = MIB) -> None:
        """As llama-server does."""
        data = struct.pack(f"<IIIiII{len(ids)}iI", 0x67677371, 4, len(ids) + 4, -1, 1, len(ids), *ids, 0)
        (self.files.open() / part).write_bytes(data.ljust(size, b"\0"))

    async def has_only(self, *files: SavedFile) -> None:
        await come_true(lambda: self.on_disk == sorted(file.name for file in files))


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    disk = Disk(tmp_path / "conversations")
    yield disk
    await disk.files.aclose()
    assert [*tmp_path.glob("conversations/*")] == []


async def test_a_saved_conversation(disk: Disk) -> None:
    """Its file is private, named by what it depends on, and found by the same server again."""
    saved = await disk.save([1, 2, 3])
    path = disk.files.open() / saved.name

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert saved.name.startswith("f00-")
    assert disk.files.usable(QWEN) == [saved]
    assert disk.files.usable(LARGER) == []
    assert disk.files.is_whole(saved)
    assert disk.files.kept(QWEN.model) == Kept(1, MIB)
    assert disk.files.kept(LARGER.model) == Kept()


async def test_the_last_used_comes_first(disk: Disk) -> None:
    """Of those that were saved together, the longest."""
    old = await disk.save([1, 2, 3, 4, 5])
    disk.now = 10.0
    short, long = await disk.save([2]), await disk.save([3, 3])

    assert disk.files.usable(QWEN) == [long, short, old]


@pytest.mark.parametrize(
    ("again", "replaces"),
    [
        ([*range(10), 10, 11], True),
        ([*range(10)], True),
        ([*range(8), 98, 99, 100], True),  # its last answer was shortened
        ([*range(8)], True),
        ([*range(7), 97, 98, 99, 100], False),
        ([0, 1], False),  # the long one is worth more than its beginning
    ],
)
async def test_a_conversation_that_goes_on_is_kept_once(disk: Disk, again: list[int], replaces: bool) -> None:
    """Another one that only begins alike is a conversation of its own."""
    first = await disk.save([*range(10)])
    renewed = await disk.save(again)
    expected = [renewed] if replaces else [renewed, first]

    assert {*disk.files.usable(QWEN)} == {*expected}
    await disk.has_only(*expected)


async def test_conversations_of_different_servers_are_not_compared(disk: Disk) -> None:
    """The same tokens are something else to another model."""
    await disk.save([1, 2, 3])
    await disk.save([1, 2, 3], LARGER)

    assert len(disk.on_disk) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"another version",
        b"short",
        struct.pack("<III2i", 0x67677371, 2, 3, 1, 2),
        struct.pack("<III3i", 0x67677371, 2, 4, 1, 2, 3),
        struct.pack("<III5i", 0x67677371, 2, 5, 1, 2, 3, 4, 5),
        struct.pack("<IIIiII3iI", 0x67677371, 4, 7, -1, 1, 3, 1, -1, 3, 1) + b"an image",
        struct.pack("<IIIiII3iI", 0x67677371, 4, 7, -1, 1, 2, 1, 2, 3, 0),
    ],
)
async def test_a_file_whose_format_is_unknown(disk: Disk, data: bytes) -> None:
    """It is kept, but never taken for another conversation."""
    for _ in range(2):
        part = await disk.files.begin(QWEN, 3)
        (disk.files.open() / part).write_bytes(data)
        saved = await disk.files.finish(part, QWEN, Moved(3, len(data)), disk.now)
        assert saved.token_ids == b""

    assert disk.files.kept(QWEN.model).conversations == 2


@pytest.mark.parametrize("again", [b"another version", None])
async def test_a_file_whose_format_is_unknown_is_replaced_by_the_next_of_its_slot(
    disk: Disk, again: bytes | None
) -> None:
    """Nothing else tells that the conversation is the same; a file whose tokens are known is compared by them."""
    unknown = await disk.save_unknown()
    other = await disk.save([7, 8, 9])
    part = await disk.files.begin(QWEN, 3)
    if again is None:
        disk.write(part, [1, 2, 3])
    else:
        (disk.files.open() / part).write_bytes(again.ljust(MIB, b"\0"))
    renewed = await disk.files.finish(part, QWEN, Moved(3, MIB), disk.now, earlier=unknown)
    last = await disk.save([4, 5, 6], earlier=other)

    await disk.has_only(other, renewed, last)


async def test_a_file_of_an_older_llama_server(disk: Disk) -> None:
    """It has the tokens and nothing else; the same conversation is recognised."""
    part = await disk.files.begin(QWEN, 3)
    (disk.files.open() / part).write_bytes(struct.pack("<III3i", 0x67677371, 2, 3, 1, 2, 3))
    await disk.files.finish(part, QWEN, Moved(3, 24), disk.now)
    renewed = await disk.save([1, 2, 3, 4])

    assert disk.files.usable(QWEN) == [renewed]


# Files that are not what they should be


@pytest.mark.parametrize("moved", [Moved(3, 2 * MIB), Moved(3, 0), Moved(0, MIB), Moved(-1, MIB), Moved(3, MIB - 1)])
async def test_a_file_that_is_not_what_the_server_says(disk: Disk, moved: Moved) -> None:
    """A full disk leaves less than that; nothing of it stays."""
    part = await disk.files.begin(QWEN, 3)
    disk.write(part, [1, 2, 3])
    with pytest.raises(NotKept, match="is the disk full"):
        await disk.files.finish(part, QWEN, moved, disk.now)
    disk.files.abandon(part)

    await disk.has_only()
    assert disk.files.usable(QWEN) == []


async def test_a_file_that_was_never_written(disk: Disk) -> None:
    """The server has another folder, or none."""
    part = await disk.files.begin(QWEN, 3)

    with pytest.raises(NotKept, match="of which 0 are in its file"):
        await disk.files.finish(part, QWEN, Moved(3, MIB), disk.now)


async def test_a_truncated_file_is_not_whole(disk: Disk) -> None:
    """Nor is one that is gone."""
    saved = await disk.save([1, 2, 3])
    with (disk.files.open() / saved.name).open("r+b") as file:
        file.truncate(MIB - 1)
    assert not disk.files.is_whole(saved)
    (disk.files.open() / saved.name).unlink()

    assert not disk.files.is_whole(saved)


async def test_foreign_files_are_removed(disk: Disk) -> None:
    """And parts that a server has written too late; what another server is writing stays."""
    saved = await disk.save([1, 2, 3])
    late, current = await disk.files.begin(QWEN, 1), await disk.files.begin(QWEN, 1)
    disk.files.abandon(late)
    for name in (late, current, "somebody's"):
        (disk.files.open() / name).touch()
    disk.files.sweep_later()

    await come_true(lambda: disk.on_disk == sorted([saved.name, current]))


async def test_what_a_changed_model_has_saved_is_removed(disk: Disk) -> None:
    """Nothing can use it again; other models' files stay."""
    await disk.save([1, 2, 3])
    other = await disk.save([1, 2, 3], LARGER)
    disk.files.drop_outdated(Origin(QWEN.model, "new", MIB))

    await disk.has_only(other)


async def test_what_a_forgotten_model_has_saved_is_removed(disk: Disk) -> None:
    """Also if several of its commands have saved; other models' files stay."""
    await disk.save([1, 2, 3])
    await disk.save([1, 2, 3], Origin(QWEN.model, "new", MIB))
    other = await disk.save([1, 2, 3], LARGER)
    disk.files.forget([QWEN.model])

    assert disk.files.kept(QWEN.model) == Kept()
    await disk.has_only(other)


async def test_a_model_is_forgotten_while_its_server_writes(disk: Disk) -> None:
    """What it is writing is not kept."""
    part = await disk.files.begin(QWEN, 3)
    other = await disk.files.begin(LARGER, 3)
    disk.files.forget([QWEN.model])
    with pytest.raises(NotKept, match="is not wanted any more"):
        await disk.finish(part, [1, 2, 3])
    saved = await disk.finish(other, [1, 2, 3], LARGER)
    disk.files.sweep_later()

    await disk.has_only(saved)


async def test_a_model_is_forgotten_while_its_file_gets_its_name(disk: Disk) -> None:
    """It is not kept either, and nothing of it stays on disk."""
    part = await disk.files.begin(QWEN, 3)
    async with asyncio.TaskGroup() as group:
        finishing = group.create_task(problem_of(disk.finish(part, [1, 2, 3])))
        await asyncio.sleep(0)  # it has begun
        disk.files.forget([QWEN.model])
    disk.files.sweep_later()

    assert "is not wanted any more" in finishing.result()
    await disk.has_only()


async def test_a_model_is_forgotten_before_its_file_gets_its_name(disk: Disk) -> None:
    """The file is gone then. The reason that is given is not a full disk."""
    part = await disk.files.begin(QWEN, 3)
    disk.files.forget([QWEN.model])

    with pytest.raises(NotKept, match="is not wanted any more"):
        await disk.files.finish(part, QWEN, Moved(3, MIB), disk.now)


async def test_a_file_is_removed_while_it_gets_its_name(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept, and the server's work goes on."""
    part = await disk.files.begin(QWEN, 3)
    monkeypatch.setattr(files, "token_ids_in", lambda path, _: path.unlink())

    assert await problem_of(disk.finish(part, [1, 2, 3])) == "what was written has been removed"


async def problem_of(finishing: Awaitable[object]) -> str:
    try:
        await finishing
    except NotKept as problem:
        return str(problem)
    return ""


async def test_a_folder_that_was_removed_has_no_files(disk: Disk) -> None:
    """They are not counted any longer."""
    await disk.save([1, 2, 3])
    for path in disk.files.open().iterdir():
        path.unlink()
    disk.files.open().rmdir()
    disk.files.open()

    assert disk.files.kept(QWEN.model) == Kept()


# The budget


async def test_the_budget_is_never_exceeded(disk: Disk) -> None:
    """The least recently used file of a model makes room for the next."""
    disk.budget = 3 * MIB
    saved = []
    for disk.now in range(5):
        saved.append(await disk.save([int(disk.now)] * 4))
        assert len(disk.on_disk) <= 3

    await disk.has_only(*saved[2:])


async def test_a_larger_models_conversations_are_worth_more(disk: Disk) -> None:
    """A token of it takes longer to compute, so at the same size the smaller model's go first, unless they are newer
    by far.
    """
    disk.budget = 3 * MIB
    first = await disk.save([1] * 4, LARGER)
    second = await disk.save([2] * 4, LARGER)
    await disk.save([1] * 4)
    third = await disk.save([3] * 4, LARGER)
    assert {*disk.files.usable(LARGER)} == {first, second, third}
    with pytest.raises(NotKept, match="1 MiB do not fit into the 3 MiB for saved conversations"):
        await disk.save([2] * 4)
    disk.now = 3 * 3600.0

    assert await disk.save([2] * 4) in disk.files.usable(QWEN)


async def test_a_conversation_that_is_larger_than_the_budget(disk: Disk) -> None:
    """Nothing is removed for it."""
    disk.budget = 3 * MIB
    saved = await disk.save([1] * 4)

    with pytest.raises(NotKept, match="4 MiB do not fit into the 3 MiB"):
        await disk.save([2] * 16)
    await disk.has_only(saved)


async def test_the_first_conversation_of_a_model_turns_out_larger_than_expected(disk: Disk) -> None:
    """It is removed again if it does not fit."""
    disk.budget = 3 * MIB
    saved = await disk.save([1] * 4)

    with pytest.raises(NotKept, match="16 MiB did not fit"):
        await disk.save([2] * 4, Origin(ModelName("wide"), "c00", weight=1), size=16 * MIB)
    await disk.has_only(saved)


async def test_two_servers_that_save_at_the_same_time_share_the_budget(disk: Disk) -> None:
    """What is being written counts with its expected size."""
    disk.budget = 2 * 4 * USUAL_TOKEN
    await disk.files.begin(QWEN, 4)
    await disk.files.begin(LARGER, 4)

    with pytest.raises(NotKept):
        await disk.files.begin(QWEN, 1)


async def test_a_smaller_budget(disk: Disk) -> None:
    """A reload may lower it, or set it to nothing; the next sweep obeys."""
    saved = [await disk.save([number] * 4) for disk.now, number in enumerate((1, 2, 3))]
    disk.budget = 2 * MIB
    disk.files.sweep_later()
    await disk.has_only(*saved[1:])
    disk.budget = 0
    disk.files.sweep_later()

    await disk.has_only()


async def test_some_of_the_disk_stays_free(tmp_path: Path) -> None:
    """For everything else on it."""
    files = SavedFiles(tmp_path / "conversations", lambda: 1 << 60, left_free=1 << 60)

    with pytest.raises(NotKept, match="do not fit on the disk"):
        await files.begin(QWEN, 1)
    await files.aclose()


# Another process


async def test_files_of_another_process(disk: Disk, tmp_path: Path) -> None:
    """They are as they were there, and what is continued replaces them; a file that is missing is forgotten."""
    first, second = await disk.save([1] * 100), await disk.save([2] * 100)
    disk.now = 60.0
    records, shared = disk.files.records(), disk.files.shared
    assert shared is not None
    path, lock = shared[0], os.dup(shared[1])
    disk.files.leave()
    (path / second.name).unlink()
    after = Disk(tmp_path / "conversations")
    after.now = 5.0

    assert after.files.take(path, lock, records)
    assert after.files.usable(QWEN) == [replace(first, used_at=-55.0)]
    assert after.files.named(second.name) is None
    continued = await after.save([1] * 150)
    await after.has_only(continued)
    await after.files.aclose()
    assert not path.exists()


async def test_only_files_of_some_models_are_kept(disk: Disk) -> None:
    """The others were removed from the configuration meanwhile."""
    kept, _ = await disk.save([1] * 100), await disk.save([2] * 100, LARGER)
    disk.files.keep_only({QWEN.model})

    await disk.has_only(kept)
