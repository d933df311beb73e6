"""A supervisor whose servers save their conversations, and a disk without servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.conversations_disk import ConversationsDisk
from tests.support.conversations_rig import BUDGET, ConversationsRig
from tests.support.supervisor_rig import GUARD_INTERPRETER

from hotseat.model_servers.conversations.manager import open_conversations
from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def rig(nobody_is_left: None, tmp_path: Path) -> AsyncIterator[ConversationsRig]:
    parent = tmp_path / "conversations"
    async with (
        open_conversations(parent, lambda: BUDGET, left_free=0) as conversations,
        open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, conversations=conversations) as supervisor,
    ):
        yield ConversationsRig(supervisor, parent)
    assert [*parent.glob("*")] == []


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[ConversationsDisk]:
    disk = ConversationsDisk(tmp_path / "conversations")
    yield disk
    await disk.files.aclose()
    assert [*tmp_path.glob("conversations/*")] == []
