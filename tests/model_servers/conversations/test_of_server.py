"""Saving and restoring the slots of servers that behave, and of servers that do not."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.support.conversations_rig import PATIENT, stand_in, talk
from tests.support.supervisor_rig import model
from tests.support.waiting import come_true

from hotseat.model_servers.conversations.manager import Kept
from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved, SlotsLearned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.conversations_rig import ConversationsRig

SHORT = replace(PATIENT, within_s=0.5)
"""For what hangs."""


def tokens(event: ConversationsSaved | ConversationsRestored) -> list[int]:
    transfers = event.saved if isinstance(event, ConversationsSaved) else event.restored
    return [transfer.tokens for transfer in transfers]


# What is saved and restored


async def test_conversations_survive_a_restart(rig: ConversationsRig) -> None:
    """The longest is saved first, and each comes back with all its tokens; unused slots have nothing to save."""
    ready = await rig.talked(stand_in("--slots", "3"), 50, 0, 100)
    saved = await rig.save(ready)
    await rig.end(ready)
    sizes = [file.stat().st_size for file in rig.files]
    restored = await rig.restore(await rig.ready(stand_in("--slots", "3")))

    assert (tokens(saved), saved.problem) == ([100, 50], "")
    assert (tokens(restored), restored.problem) == ([100, 50], "")
    assert {transfer.size for transfer in (*saved.saved, *restored.restored)} == {*sizes}
    assert all(0 < transfer.took_s < 60 for transfer in (*saved.saved, *restored.restored))
    assert rig.supervisor.conversations.kept(ready.model) == Kept(2, sum(sizes))
    assert [await rig.said(f"restored {slot} ") for slot in (0, 1)] == ["100", "50"]


async def test_a_server_that_keeps_no_conversations(rig: ConversationsRig) -> None:
    """It gets no folder, and nothing of it is saved."""
    ready = await rig.talked(stand_in(keeps_conversations=False), 100)

    assert (await rig.save(ready)).problem == "the server was started without a folder for its conversations"
    assert (await rig.restore(ready)).restored == ()
    assert not rig.parent.exists()


async def test_what_a_server_inherits(rig: ConversationsRig) -> None:
    """The folder, and nothing that would change how it works otherwise."""
    await rig.ready(model("prints_its_environment", keeps_conversations=True))
    folder = await rig.said("LLAMA_ARG_SLOT_SAVE_PATH=")

    assert folder in map(str, rig.parent.iterdir())
    assert len(rig.lines_with("LLAMA_ARG_")) == 1


async def test_short_conversations_are_not_worth_it(rig: ConversationsRig) -> None:
    """Neither to save nor to restore."""
    await rig.saved_and_ended(stand_in("--slots", "3"), 100, 20, 9)
    ready = await rig.ready(stand_in("--slots", "3"))

    assert len(rig.files) == 2
    assert tokens(await rig.restore(ready, replace(PATIENT, least_tokens=50))) == [100]


async def test_no_more_than_the_time_allows(rig: ConversationsRig) -> None:
    """A conversation whose expected time is not left is skipped for a shorter one, and the event says so."""
    ready = await rig.talked(stand_in("--slots", "3"), 5000, 200, 100)
    saved = await rig.save(ready, replace(PATIENT, token_s=0.02))
    await rig.end(ready)
    ready = await rig.ready(stand_in("--slots", "3"))
    restored = await rig.restore(ready, replace(PATIENT, within_s=30.0, token_s=0.2))

    assert (tokens(saved), saved.problem) == ([200, 100], "no time was left for 1 more")
    assert (tokens(restored), restored.problem) == ([100], "no time was left for 1 more")


async def test_a_slot_in_use_is_left_alone(rig: ConversationsRig) -> None:
    """The server would save it only when its request is over."""
    ready = await rig.talked(stand_in(), 100, 50, busy=(0,))
    saved = await rig.save(ready)

    assert (tokens(saved), saved.problem) == ([50], "slot 0 is in use")


async def test_more_conversations_than_slots(rig: ConversationsRig) -> None:
    """The last used are restored."""
    for turn in ((100, 90), (80, 0)):
        await rig.saved_and_ended(stand_in("--slots", "2", "--trouble", "none"), *turn)
    ready = await rig.ready(stand_in("--slots", "2", "--trouble", "none"))

    assert tokens(await rig.restore(ready)) == [80, 90]


async def test_a_restored_conversation_that_nobody_used_is_not_written_again(rig: ConversationsRig) -> None:
    """Its file is still right, and the time is left for others."""
    await rig.saved_and_ended(stand_in(), 100, 50)
    files = rig.files
    ready = await rig.ready(stand_in())
    await rig.restore(ready)
    assert tokens(await rig.save(ready)) == []
    assert rig.files == files
    await talk(ready, 100, 60)

    assert tokens(await rig.save(ready)) == [60]
    await come_true(lambda: len(rig.files) == 2 and rig.files != files)


async def test_a_conversation_in_an_unknown_format_is_kept_once(rig: ConversationsRig) -> None:
    """What its slot has when it is saved again replaces it."""
    spec = stand_in("--trouble", "save:in another format")
    await rig.saved_and_ended(spec, 100, 50)
    ready = await rig.ready(spec)
    await rig.restore(ready)
    await talk(ready, 110, 50)
    await rig.save(ready)

    assert rig.supervisor.conversations.kept(ready.model).conversations == 2
    await come_true(lambda: len(rig.files) == 2)


async def test_what_was_saved_of_a_model_that_is_forgotten(rig: ConversationsRig) -> None:
    """Its files are removed, and its next server has nothing to restore."""
    saved = await rig.saved_and_ended(stand_in(), 100, 50)
    rig.supervisor.conversations.forget([saved.model])

    assert rig.supervisor.conversations.kept(saved.model) == Kept()
    await come_true(lambda: not rig.files)
    assert tokens(await rig.restore(await rig.ready(stand_in()))) == []


async def test_a_server_with_a_key_is_asked_with_it(rig: ConversationsRig) -> None:
    """Otherwise it refuses to name its slots."""
    spec = stand_in("--api-key", "sesame,other")
    ready = await rig.talked(stand_in("--api-key", "sesame"), 100)

    assert tokens(await rig.save(ready)) == [100]
    assert await rig.supervisor.ask_slots(ready) == SlotsLearned(ready.model, ready.launch, 2)
    refusing = await rig.ready(spec)
    assert (await rig.save(refusing)).problem == "GET /props was answered with 401: Invalid API Key"


# What a saved conversation depends on


@pytest.mark.parametrize("change", ['{"context": 2048}', '{"build": "b2"}'])
async def test_another_context_or_build(rig: ConversationsRig, change: str, tmp_path: Path) -> None:
    """Nothing is restored, and what nobody can use any more is removed."""
    settings = tmp_path / "settings.json"
    spec = stand_in("--settings", str(tmp_path))  # a folder: only the server's word tells that something has changed
    settings.write_text("{}")
    await rig.saved_and_ended(spec, 100)
    settings.write_text(change)

    assert tokens(await rig.restore(await rig.ready(spec))) == []
    await come_true(lambda: not rig.files)


async def test_files_that_change_while_the_server_runs(rig: ConversationsRig, tmp_path: Path) -> None:
    """What it has loaded is unknown then, so nothing of it is kept."""
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"old")
    ready = await rig.talked(stand_in("--trouble", str(weights)), 100)
    weights.write_bytes(b"newer")

    assert (await rig.save(ready)).problem == "the files of its command have changed since it was started"
    assert rig.files == []


# Trouble


@pytest.mark.parametrize(
    ("trouble", "problem"),
    [
        ("slots:501", "GET /slots was answered with 501: it cannot"),
        ("slots:rubbish", "GET /slots does not list its slots"),
        ("slots:a page", "GET /slots was not answered with JSON"),
        ("props:404", "GET /props was answered with 404: it cannot"),
        ("props:rubbish", "GET /props does not report slots, context and build"),
        ("save:500", "POST /slots/0?action=save was answered with 500: it cannot"),
        ("save:501", "POST /slots/0?action=save was answered with 501: it cannot"),
        ("save:rubbish", "POST /slots/0?action=save does not say what it did"),
        ("save:truncates", "the server wrote 101432 bytes, of which 101431 are in its file; is the disk full?"),
        ("save:writes nothing", "the server wrote 0 bytes, of which 0 are in its file; is the disk full?"),
    ],
)
async def test_a_server_that_does_not_save(rig: ConversationsRig, trouble: str, problem: str) -> None:
    """The event says why, nothing is left on disk, and the server lives on."""
    ready = await rig.talked(stand_in("--trouble", trouble), 101, 50)
    saved = await rig.save(ready)

    assert saved.saved == ()
    assert saved.problem.startswith(problem)
    await come_true(lambda: not rig.files)
    assert await rig.end(ready) == "was terminated by SIGTERM"


@pytest.mark.parametrize("what", ["props", "slots", "save"])
async def test_a_server_that_hangs_while_saving(rig: ConversationsRig, what: str) -> None:
    """It is killed when its time is over: a llama-server that is asked to save may not react to SIGTERM any more."""
    ready = await rig.talked(stand_in("--trouble", f"{what}:hangs"), 100)
    saved = await rig.save(ready, SHORT)

    assert (saved.saved, saved.problem) == ((), "the server had not answered after 0.5 seconds")
    assert (saved.unfinished.tokens if saved.unfinished else 0) == (100 if what == "save" else 0)
    assert (await rig.supervisor.watch(ready)).exit_status == "was terminated by SIGKILL"


@pytest.mark.parametrize("how", ["dies", "hangs"])
async def test_a_server_that_dies_while_saving(rig: ConversationsRig, how: str) -> None:
    """By itself, or by kill -9: only its exit is reported, and nothing is left of what it wrote."""
    ready = await rig.talked(stand_in("--trouble", f"save:{how}"), 100)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(rig.supervisor.watch(ready))
        saving = group.create_task(rig.supervisor.save_conversations(rig.saving(ready)))
        await rig.said("asked to save")
        if how == "hangs":
            os.kill(ready.upstream.pid or 0, signal.SIGKILL)

    assert saving.result() is None
    assert watching.result().exit_status.startswith(("exited with code 3", "was terminated by SIGKILL"))
    await come_true(lambda: not rig.files)
    assert await rig.supervisor.save_conversations(rig.saving(ready)) is None


async def test_a_stop_does_not_wait_for_a_save(rig: ConversationsRig) -> None:
    """Nor for a restore."""
    ready = await rig.talked(stand_in("--trouble", "save:hangs"), 100)
    async with asyncio.TaskGroup() as group:
        saving = group.create_task(rig.supervisor.save_conversations(rig.saving(ready)))
        await rig.said("asked to save")
        assert await rig.end(ready) == "was terminated by SIGTERM"

    assert saving.result() is None


@pytest.mark.parametrize(
    ("trouble", "problem"),
    [
        ("restore:400", "POST /slots/0?action=restore was answered with 400: it cannot"),
        ("restore:rubbish", "POST /slots/0?action=restore does not say what it did"),
        ("restore:lies", "99 tokens were restored instead of 100"),
    ],
)
async def test_a_server_that_does_not_restore(rig: ConversationsRig, trouble: str, problem: str) -> None:
    """Whatever is in the slot is erased, and the file is removed."""
    spec = stand_in("--trouble", trouble)
    await rig.saved_and_ended(spec, 100)
    ready = await rig.ready(spec)
    restored = await rig.restore(ready)

    assert restored.restored == ()
    assert restored.problem.startswith(problem)
    assert await rig.said("erased ") == "0"
    await come_true(lambda: not rig.files)


async def test_a_server_that_hangs_while_restoring(rig: ConversationsRig) -> None:
    """The file stays: nothing says that it is bad."""
    spec = stand_in("--trouble", "restore:hangs")
    await rig.saved_and_ended(spec, 100)
    ready = await rig.ready(spec)
    restored = await rig.restore(ready, SHORT)

    assert (restored.restored, restored.problem) == ((), "the server had not answered after 0.5 seconds")
    assert len(rig.files) == 1
    await rig.end(ready)


async def test_a_server_that_dies_while_restoring(rig: ConversationsRig) -> None:
    """Only its exit is reported, although its connection ends first: nobody takes it for a ready server."""
    spec = stand_in("--trouble", "restore:dies")
    await rig.saved_and_ended(spec, 100)
    ready = await rig.ready(spec)

    assert await rig.supervisor.restore_conversations(rig.restoring(ready)) is None
    assert (await rig.supervisor.watch(ready)).exit_status == "exited with code 3"


async def test_a_file_that_was_truncated_is_not_read(rig: ConversationsRig) -> None:
    """It is removed, and the others are restored."""
    await rig.saved_and_ended(stand_in(), 100, 50)
    largest = max(rig.files, key=lambda file: file.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(1000)
    restored = await rig.restore(await rig.ready(stand_in()))

    assert tokens(restored) == [50]
    assert restored.problem == "a file does not have the size with which it was saved and is removed"
    await come_true(lambda: largest not in rig.files)


async def test_a_folder_that_cannot_be_created(rig: ConversationsRig, caplog: pytest.LogCaptureFixture) -> None:
    """The server starts without it."""
    rig.parent.touch()
    ready = await rig.ready(stand_in())

    assert "conversations cannot be saved" in caplog.text
    assert (await rig.save(ready)).saved == ()
    rig.parent.unlink()
