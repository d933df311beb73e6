"""What is kept of the conversations that servers write, and what the disk budget removes."""

from __future__ import annotations

import stat
import struct
from typing import TYPE_CHECKING

import pytest
from tests.support.conversations_disk import LARGER, MIB, QWEN
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers.conversations import part as part_module
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.manager import Kept
from hotseat.model_servers.conversations.part import NotKept
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.saves_in_progress import USUAL_TOKEN, SavesInProgress
from hotseat.model_servers.conversations.slots_api import Moved

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.conversations_disk import ConversationsDisk


async def test_a_saved_conversation(disk: ConversationsDisk) -> None:
    """Its file is private, named by what it depends on, and found by the same server again."""
    saved = await disk.save([1, 2, 3])
    path = disk.files.open() / saved.name

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert saved.name.startswith("f00-")
    assert disk.files.usable(QWEN) == [saved]
    assert disk.files.usable(LARGER) == []
    assert disk.files.is_whole(saved)
    assert disk.conversations.kept(QWEN.model) == Kept(1, MIB)
    assert disk.conversations.kept(LARGER.model) == Kept()


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
async def test_a_conversation_that_goes_on_is_kept_once(
    disk: ConversationsDisk, again: list[int], replaces: bool
) -> None:
    """Another one that only begins alike is a conversation of its own."""
    first = await disk.save([*range(10)])
    renewed = await disk.save(again)
    expected = [renewed] if replaces else [renewed, first]

    assert {*disk.files.usable(QWEN)} == {*expected}
    await disk.has_only(*expected)


async def test_conversations_of_different_servers_are_not_compared(disk: ConversationsDisk) -> None:
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
async def test_a_file_whose_format_is_unknown(disk: ConversationsDisk, data: bytes) -> None:
    """It is kept, but never taken for another conversation."""
    for _ in range(2):
        part = await disk.saves.begin(QWEN, 3)
        (disk.files.open() / part.name).write_bytes(data)
        saved = await disk.saves.finish(part, Moved(3, len(data)), disk.now)
        assert saved.token_ids == b""

    assert disk.conversations.kept(QWEN.model).conversations == 2


@pytest.mark.parametrize("again", [b"another version", None])
async def test_a_file_whose_format_is_unknown_is_replaced_by_the_next_of_its_slot(
    disk: ConversationsDisk, again: bytes | None
) -> None:
    """Nothing else tells that the conversation is the same; a file whose tokens are known is compared by them."""
    unknown = await disk.save_unknown()
    other = await disk.save([7, 8, 9])
    part = await disk.saves.begin(QWEN, 3)
    if again is None:
        disk.write(part, [1, 2, 3])
    else:
        (disk.files.open() / part.name).write_bytes(again.ljust(MIB, b"\0"))
    renewed = await disk.saves.finish(part, Moved(3, MIB), disk.now, earlier=unknown)
    last = await disk.save([4, 5, 6], earlier=other)

    await disk.has_only(other, renewed, last)


async def test_a_file_of_an_older_llama_server(disk: ConversationsDisk) -> None:
    """It has the tokens and nothing else; the same conversation is recognised."""
    part = await disk.saves.begin(QWEN, 3)
    (disk.files.open() / part.name).write_bytes(struct.pack("<III3i", 0x67677371, 2, 3, 1, 2, 3))
    await disk.saves.finish(part, Moved(3, 24), disk.now)
    renewed = await disk.save([1, 2, 3, 4])

    assert disk.files.usable(QWEN) == [renewed]


# Files that are not what they should be


@pytest.mark.parametrize("moved", [Moved(3, 2 * MIB), Moved(3, 0), Moved(0, MIB), Moved(-1, MIB), Moved(3, MIB - 1)])
async def test_a_file_that_is_not_what_the_server_says(disk: ConversationsDisk, moved: Moved) -> None:
    """A full disk leaves less than that; nothing of it stays."""
    part = await disk.saves.begin(QWEN, 3)
    disk.write(part, [1, 2, 3])
    with pytest.raises(NotKept, match="is the disk full"):
        await disk.saves.finish(part, moved, disk.now)
    disk.saves.abandon(part)

    await disk.has_only()
    assert disk.files.usable(QWEN) == []


async def test_a_file_that_was_never_written(disk: ConversationsDisk) -> None:
    """The server has another folder, or none."""
    part = await disk.saves.begin(QWEN, 3)

    with pytest.raises(NotKept, match="of which 0 are in its file"):
        await disk.saves.finish(part, Moved(3, MIB), disk.now)


async def test_foreign_files_are_removed(disk: ConversationsDisk) -> None:
    """And parts that a server has written too late; what another server is writing stays."""
    saved = await disk.save([1, 2, 3])
    late, current = await disk.saves.begin(QWEN, 1), await disk.saves.begin(QWEN, 1)
    disk.saves.abandon(late)
    for name in (late.name, current.name, "somebody's"):
        (disk.files.open() / name).touch()
    disk.saves.sweep_later()

    await come_true(lambda: disk.on_disk == sorted([saved.name, current.name]))


async def test_a_file_is_removed_while_it_gets_its_name(
    disk: ConversationsDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not kept, and the server's work goes on."""
    part = await disk.saves.begin(QWEN, 3)
    monkeypatch.setattr(part_module, "token_ids_in", lambda path, _: path.unlink())

    with pytest.raises(NotKept, match="what was written has been removed"):
        await disk.finish(part, [1, 2, 3])


# The budget


async def test_the_budget_is_never_exceeded(disk: ConversationsDisk) -> None:
    """The least recently used file of a model makes room for the next."""
    disk.budget = 3 * MIB
    saved = []
    for disk.now in range(5):
        saved.append(await disk.save([int(disk.now)] * 4))
        assert len(disk.on_disk) <= 3

    await disk.has_only(*saved[2:])


async def test_a_larger_models_conversations_are_worth_more(disk: ConversationsDisk) -> None:
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


async def test_a_conversation_that_is_larger_than_the_budget(disk: ConversationsDisk) -> None:
    """Nothing is removed for it."""
    disk.budget = 3 * MIB
    saved = await disk.save([1] * 4)

    with pytest.raises(NotKept, match="4 MiB do not fit into the 3 MiB"):
        await disk.save([2] * 16)
    await disk.has_only(saved)


async def test_the_first_conversation_of_a_model_turns_out_larger_than_expected(disk: ConversationsDisk) -> None:
    """It is removed again if it does not fit."""
    disk.budget = 3 * MIB
    saved = await disk.save([1] * 4)

    with pytest.raises(NotKept, match="16 MiB did not fit"):
        await disk.save([2] * 4, Origin(ModelName("wide"), "c00", weight=1), size=16 * MIB)
    await disk.has_only(saved)


async def test_two_servers_that_save_at_the_same_time_share_the_budget(disk: ConversationsDisk) -> None:
    """What is being written counts with its expected size."""
    disk.budget = 2 * 4 * USUAL_TOKEN
    await disk.saves.begin(QWEN, 4)
    await disk.saves.begin(LARGER, 4)

    with pytest.raises(NotKept):
        await disk.saves.begin(QWEN, 1)


async def test_a_smaller_budget(disk: ConversationsDisk) -> None:
    """A reload may lower it, or set it to nothing; the next sweep obeys."""
    saved = [await disk.save([number] * 4) for disk.now, number in enumerate((1, 2, 3))]
    disk.budget = 2 * MIB
    disk.saves.sweep_later()
    await disk.has_only(*saved[1:])
    disk.budget = 0
    disk.saves.sweep_later()

    await disk.has_only()


async def test_some_of_the_disk_stays_free(tmp_path: Path) -> None:
    """For everything else on it."""
    files = SavedFiles(tmp_path / "conversations")
    saves = SavesInProgress(files, lambda: 1 << 60, left_free=1 << 60)

    with pytest.raises(NotKept, match="do not fit on the disk"):
        await saves.begin(QWEN, 1)
    await files.aclose()
