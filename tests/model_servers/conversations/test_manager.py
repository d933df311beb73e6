"""What is removed of models that are no longer configured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.conversations_disk import LARGER, MIB, QWEN

from hotseat.model_servers.conversations.manager import Kept
from hotseat.model_servers.conversations.part import NotKept
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.slots_api import Moved

if TYPE_CHECKING:
    from collections.abc import Awaitable

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
