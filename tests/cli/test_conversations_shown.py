"""`hotseat ps`, `show` and `why` say what became of saved conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.support.command_line import CommandLine
from tests.support.conversations import kept_and_continued, restored_in_vain
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.management import application, furnished, served

from hotseat.cli.show import conversations_in_words
from hotseat.cli.tables import memory_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.command_line import Typed


@pytest.fixture
async def command_line(typed: Typed, tmp_path: Path) -> AsyncIterator[CommandLine]:
    models = catalog(spec("qwen", keeps_conversations=True), spec("llama", keeps_conversations=True), spec("plain"))
    async with httpx2.AsyncClient(verify=False) as client:
        rig = furnished(models, FakeLauncher(), client, tmp_path)
        async with served(application(rig), host="127.0.0.1", port=0) as port:
            yield CommandLine(rig, f"http://127.0.0.1:{port}", typed)
        await rig.dispatcher.shut_down(within=0)


async def test_ps_shows_the_conversations_of_each_model_that_has_saved_some(command_line: CommandLine) -> None:
    """Also of a model that does not run; nothing before the first one is saved."""
    before = (await command_line.type("ps")).out
    rig = command_line.rig
    await kept_and_continued(rig.dispatcher, rig.launcher, "qwen")
    rig.kept["qwen"] = (3, 210 << 20)
    _, after = (await command_line.type("ps")).out.split("\n\n")

    assert "CONVERSATIONS" not in before
    head, row = after.splitlines()
    assert head.split("  ")[0] == "CONVERSATIONS OF"
    assert row.split() == ["qwen", "3", "210", "MiB", "1", "1", "1", "2s"]


async def test_a_model_whose_conversations_are_not_saved_any_more(command_line: CommandLine) -> None:
    """Both commands give the reason, once."""
    rig = command_line.rig
    await restored_in_vain(rig.dispatcher, rig.launcher, "qwen")
    printed = [(await command_line.type(*words)).out for words in (("ps",), ("why", "qwen"))]

    assert [text.count("conversations of qwen: its server") for text in printed] == [1, 1]
    await command_line.type("load", "llama")
    assert "conversations of" not in (await command_line.type("why", "llama")).out


def test_show_says_it_in_a_line() -> None:
    """What is on disk, what became of it, and why it is not done any more."""
    known = {"kept": 1, "bytes": 25 << 20, "saved": 9, "restored": 5, "reused": 4, "gained_s": 42.4, "problem": ""}
    line = "1 conversation, 25 MiB; 9 saved, 5 restored, 4 reused; 42s of computing saved"

    assert conversations_in_words(known) == line
    assert conversations_in_words({**known, "kept": 0, "saved": 0}) == "no conversation has been saved so far"
    assert conversations_in_words({**known, "kept": 2, "problem": "not reused"}) == (
        line.replace("1 conversation,", "2 conversations,") + "; not reused"
    )


@pytest.mark.parametrize(("size", "text"), [(0, "0 MiB"), (210 << 20, "210 MiB"), (5 << 30, "5.0 GiB")])
def test_a_size_has_the_unit_that_fits(size: int, text: str) -> None:
    """MiB below a thousand of them."""
    assert memory_text(size) == text
