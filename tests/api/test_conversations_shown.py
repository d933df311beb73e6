"""What /hotseat/models says about saved conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.conversations import kept_and_continued, restored_in_vain
from tests.support.fake_launcher import catalog, spec
from tests.support.management import Management, management

from hotseat.api.llama_cpp_models import passed
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import ConversationsRestored, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ALPHA = ModelName("alpha")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Management]:
    models = catalog(spec("alpha", keeps_conversations=True), spec("beta"))
    async with management(tmp_path / "socket", models) as rig:
        yield rig


async def test_a_model_that_keeps_conversations_says_what_became_of_them(rig: Management) -> None:
    """Those on disk with their size, and what saving, restoring and reusing them has gained."""
    await kept_and_continued(rig.dispatcher, rig.launcher, "alpha")
    rig.kept["alpha"] = (3, 210 << 20)
    alpha, beta = (await rig.get("/hotseat/models")).json()["models"]

    assert beta["conversations"] is None
    assert alpha["conversations"] == {
        "kept": 3,
        "bytes": 210 << 20,
        "saved": 1,
        "restored": 1,
        "reused": 1,
        "gained_s": 2.0,
        "problem": "",
    }


async def test_a_model_whose_conversations_are_not_reused_says_so(rig: Management) -> None:
    """Its reason is in the answer, whatever its phase."""
    await restored_in_vain(rig.dispatcher, rig.launcher, "alpha")
    details = (await rig.get("/hotseat/models/alpha")).json()

    assert details["phase"] == "cold"
    assert "does not reuse them" in details["conversations"]["problem"]


async def test_a_model_is_loaded_when_its_conversations_are_restored(rig: Management) -> None:
    """The feed of llama.cpp's router says so once, and not while they are being restored."""
    await kept_and_continued(rig.dispatcher, rig.launcher, "alpha")
    entries = [
        entry for entry in rig.journal.entries() if isinstance(entry.event, UpstreamReady | ConversationsRestored)
    ]

    assert [[state.value for state in passed(entry)] for entry in entries] == [["loaded"], [], ["loaded"]]
