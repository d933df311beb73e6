"""What is removed of models that are no longer configured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.conversations_disk import LARGER, MIB, QWEN
from tests.support.conversations_rig import stand_in
from tests.support.hanging_disk import hanging

from hotseat import threads
from hotseat.identifiers import Address, LaunchId
from hotseat.model_servers.adoption import KeptIn, ServerDescription, read_description
from hotseat.model_servers.conversations.manager import Kept
from hotseat.model_servers.conversations.part import NotKept
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.slots_api import Moved

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from tests.support.conversations_disk import ConversationsDisk


async def test_what_a_forgotten_model_has_saved_is_removed(disk: ConversationsDisk) -> None:
    """Also if several of its commands have saved; other models' files stay."""
    await disk.save([1, 2, 3])
    await disk.save([1, 2, 3], Origin(QWEN.model, "new", MIB))
    other = await disk.save([1, 2, 3], LARGER)
    disk.conversations.forget([QWEN.model])

    assert disk.conversations.kept(QWEN.model) == Kept()
    await disk.has_only(other)


async def test_a_model_is_forgotten_while_its_server_writes(disk: ConversationsDisk) -> None:
    """What it is writing is not kept."""
    part = await disk.saves.begin(QWEN, 3)
    other = await disk.saves.begin(LARGER, 3)
    disk.conversations.forget([QWEN.model])
    with pytest.raises(NotKept, match="is not wanted any more"):
        await disk.finish(part, [1, 2, 3])
    saved = await disk.finish(other, [1, 2, 3])
    disk.saves.sweep_later()

    await disk.has_only(saved)


async def test_a_model_is_forgotten_while_its_file_gets_its_name(disk: ConversationsDisk) -> None:
    """It is not kept either, and nothing of it stays on disk."""
    part = await disk.saves.begin(QWEN, 3)
    async with asyncio.TaskGroup() as group:
        finishing = group.create_task(problem_of(disk.finish(part, [1, 2, 3])))
        await asyncio.sleep(0)  # it has begun
        disk.conversations.forget([QWEN.model])
    disk.saves.sweep_later()

    assert "is not wanted any more" in finishing.result()
    await disk.has_only()


async def test_a_model_is_forgotten_before_its_file_gets_its_name(disk: ConversationsDisk) -> None:
    """The file is gone then. The reason that is given is not a full disk."""
    part = await disk.saves.begin(QWEN, 3)
    disk.conversations.forget([QWEN.model])

    with pytest.raises(NotKept, match="is not wanted any more"):
        await disk.saves.finish(part, Moved(3, MIB), disk.now)


async def problem_of(finishing: Awaitable[object]) -> str:
    try:
        await finishing
    except NotKept as problem:
        return str(problem)
    return ""


async def test_only_files_of_some_models_are_kept(disk: ConversationsDisk) -> None:
    """The others were removed from the configuration meanwhile."""
    kept, _ = await disk.save([1] * 100), await disk.save([2] * 100, LARGER)
    await disk.conversations.remove_leftovers({QWEN.model})

    await disk.has_only(kept)


async def test_a_server_starts_whose_disk_does_not_respond(
    disk: ConversationsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saves no conversations: what they would depend on is unknown."""
    monkeypatch.setattr(threads, "DISK_S", 0.01)
    spec = stand_in("-m", str(tmp_path / "models/m.gguf"))
    with hanging(tmp_path / "models"):
        variables = await disk.conversations.start(LaunchId(9), spec, {})

    assert variables == {}
    assert disk.conversations.of_server(LaunchId(9)) is None


def described(kept: KeptIn) -> ServerDescription:
    """A server that saves its conversations, as another process says."""
    address = Address("127.0.0.1", 1)
    return ServerDescription(QWEN.model, LaunchId(1), 1, address, 1, None, "f00", (), 0.0, conversations=kept)


async def test_a_server_is_adopted_whose_disk_does_not_respond(disk: ConversationsDisk, tmp_path: Path) -> None:
    """What is known of its files is what the earlier process says."""
    kept = KeptIn(str(disk.files.open()), "as then", weight=7 * MIB)
    with hanging(tmp_path / "models"):
        disk.conversations.adopt(LaunchId(9), stand_in("-m", str(tmp_path / "models/m.gguf")), {}, described(kept))

    assert disk.conversations.kept_in(LaunchId(9)) == kept


def test_an_earlier_version_does_not_say_how_large_the_files_are() -> None:
    """The server is adopted, and what it has saved before is still its own."""
    said = described(KeptIn("/cache/0123456789abcdef", "as then")).as_json()
    del said["conversations"]["weight"]

    assert read_description(said, 1) == described(KeptIn("/cache/0123456789abcdef", "as then"))
    assert Origin(QWEN.model, QWEN.fingerprint, 7 * MIB) == QWEN
