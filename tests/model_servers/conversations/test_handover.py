"""What one process says about saved conversations, as the next one reads it."""

from __future__ import annotations

import json

import pytest

from hotseat.identifiers import LaunchId, ModelName
from hotseat.model_servers.conversations.handover import FileRecord, HandedConversations, SlotsRecord, read_handed
from hotseat.model_servers.conversations.slots_api import Slot

FILE = FileRecord("a.slot", ModelName("qwen"), "f00", weight=7, tokens=100, size=400, unused_s=3.5)
SLOTS = SlotsRecord(LaunchId(3), (Slot(0, False, 100, 4),), {0: "a.slot"})
HANDED = HandedConversations("/cache/0123456789abcdef", (FILE,), (SLOTS,))


def test_it_is_read_as_it_was_written() -> None:
    """Fields that only a newer version has are ignored."""
    said = json.loads(json.dumps(HANDED.as_json()))
    said["files"][0]["mood"] = said["weather"] = "fine"

    assert read_handed(said) == HANDED


@pytest.mark.parametrize(
    "said",
    [None, {}, [], "text", {"folder": "/", "files": [{}], "servers": []}, {"folder": "/", "files": [], "servers": [1]}],
)
def test_what_cannot_be_understood(said: object) -> None:
    """The new process then begins a folder of its own."""
    assert read_handed(said) is None
