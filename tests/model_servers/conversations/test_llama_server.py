"""Conversations of the real llama-server: what is restored is reused, and answers do not change."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.support.conversations_rig import PATIENT, ask, real
from tests.support.supervisor_rig import is_alive
from tests.support.waiting import come_true

from hotseat.model_servers.conversations import saves_in_progress
from hotseat.model_servers.conversations.manager import Kept

if TYPE_CHECKING:
    from tests.support.conversations_rig import ConversationsRig

    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.events import UpstreamReady

pytestmark = [pytest.mark.llama, pytest.mark.timeout(240)]

WORDS = "once upon a time there was a server that had to forget whatever it was told and learn it all again"
TURN_1 = [{"role": "user", "content": f"{WORDS} " * 8}]
KEY = "sesame"


def opening(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{number} {'abcdefgh'[number]} " * 60 + WORDS}]


class Turn(NamedTuple):
    messages: list[dict[str, str]]
    known: int
    """Tokens at its beginning that the server has seen."""

    def reused(self, response: Any) -> float:
        """The share of them that was not computed again."""
        return float(response["timings"]["cache_n"] / self.known)


async def answer(ready: UpstreamReady, messages: list[dict[str, str]], key: str = "") -> Any:
    body = {"messages": messages, "temperature": 0, "max_tokens": 12, "cache_prompt": True}
    return await ask(ready, "/v1/chat/completions", body, key)


async def next_turn(ready: UpstreamReady, messages: list[dict[str, str]], key: str = "") -> Turn:
    """The conversation with the answer and another question."""
    response = await answer(ready, messages, key)
    said = {"role": "assistant", "content": text(response)}
    return Turn([*messages, said, {"role": "user", "content": "go on"}], response["usage"]["prompt_tokens"])


def text(response: Any) -> str:
    return str(response["choices"][0]["message"]["content"])


async def restarted(rig: ConversationsRig, ready: UpstreamReady, spec: ModelSpec, count: int) -> UpstreamReady:
    saved = await rig.save(ready)
    assert (len(saved.saved), saved.problem) == (count, "")
    await rig.end(ready)
    again = await rig.ready(spec)
    restored = await rig.restore(again)
    assert (len(restored.restored), restored.problem) == (count, "")
    assert {transfer.tokens for transfer in restored.restored} == {transfer.tokens for transfer in saved.saved}
    return again


@pytest.mark.parametrize("options", ["-np 1", "", f"-np 1 --api-key {KEY},other"])
async def test_the_next_turn_after_a_restart(rig: ConversationsRig, options: str) -> None:
    """It computes the new question only, and answers exactly as without a restart."""
    spec, key = real(options), KEY if KEY in options else ""
    ready = await rig.ready(spec)
    turn = await next_turn(ready, TURN_1, key)
    ready = await restarted(rig, ready, spec, 1)
    continued = await answer(ready, turn.messages, key)
    await rig.end(ready)
    fresh = await answer(await rig.ready(spec), turn.messages, key)

    assert turn.reused(continued) >= 0.99
    assert fresh["timings"]["cache_n"] == 0
    assert text(continued) == text(fresh)


@pytest.mark.parametrize("options", ["-np 4", "--no-cache-idle-slots"])
async def test_four_conversations_in_four_slots(rig: ConversationsRig, options: str) -> None:
    """Each is found again, also where the server chooses the number of slots; a second restart changes nothing."""
    spec = real(options)
    ready = await rig.ready(spec)
    turns = [await next_turn(ready, opening(number)) for number in range(4)]
    ready = await restarted(rig, ready, spec, 4)
    answers = [await answer(ready, turn.messages) for turn in turns]
    await rig.save(ready)
    await rig.end(ready)

    assert min(turn.reused(each) for turn, each in zip(turns, answers, strict=True)) >= 0.99
    await come_true(lambda: len(rig.files) == 4)
    assert rig.supervisor.conversations.kept(ready.model) == Kept(4, sum(file.stat().st_size for file in rig.files))
    fresh = await rig.ready(spec)
    assert [text(await answer(fresh, turn.messages)) for turn in turns] == [text(each) for each in answers]


async def test_automatic_slots_have_the_newest_conversation(rig: ConversationsRig) -> None:
    """Each restart saves the one that was used last; what earlier restarts saved of the others is restored, too."""
    spec = real("")
    ready, turns = await rig.ready(spec), list[Turn]()
    for number in range(3):
        turns.append(await next_turn(ready, opening(number)))
        saved = await rig.save(ready)
        await rig.end(ready)
        ready = await rig.ready(spec)
        restored = await rig.restore(ready)
        assert (len(saved.saved), len(restored.restored)) == (1, number + 1)
    answers = [await answer(ready, turn.messages) for turn in turns]

    assert min(turn.reused(each) for turn, each in zip(turns, answers, strict=True)) >= 0.99


async def test_what_was_restored_and_not_used_stays_saved(rig: ConversationsRig) -> None:
    """The server does not write it again, and the one that went on replaces its earlier file."""
    spec = real("-np 2")
    ready = await rig.ready(spec)
    turns = [await next_turn(ready, opening(number)) for number in range(2)]
    ready = await restarted(rig, ready, spec, 2)
    before = rig.files
    await answer(ready, turns[0].messages)
    saved = await rig.save(ready)

    assert len(saved.saved) == 1
    await come_true(lambda: len(rig.files) == 2)
    assert len({*before} & {*rig.files}) == 1


async def test_more_conversations_than_a_shared_context_holds(rig: ConversationsRig) -> None:
    """The last used is restored; another one that does not fit beside it stays on disk."""
    spec = real("-c 1024")
    ready = await rig.ready(spec)
    await next_turn(ready, TURN_1)
    ready = await restarted(rig, ready, spec, 1)
    turn = await next_turn(ready, [{"role": "user", "content": f"{WORDS[::-1]} " * 3}])
    await rig.save(ready)
    await rig.end(ready)
    ready = await rig.ready(spec)
    restored = await rig.restore(ready)

    assert len(restored.restored) == 1
    assert "answered with 400" in restored.problem
    assert len(rig.files) == 2
    assert turn.reused(await answer(ready, turn.messages)) >= 0.99


@pytest.mark.parametrize("meanwhile", ["saving", "restoring"])
async def test_a_llama_server_killed_while_it_saves_or_restores(rig: ConversationsRig, meanwhile: str) -> None:
    """What was saved before is still used by the next one, and of what was not, nothing is left."""
    spec = real("-np 1")
    ready = await rig.ready(spec)
    turn = await next_turn(ready, TURN_1)
    await rig.save(ready)
    before = rig.files
    if meanwhile == "restoring":
        await rig.end(ready)
        ready = await rig.ready(spec)
    await killed_while(rig, ready, meanwhile)

    await come_true(lambda: rig.files == before)
    ready = await rig.ready(spec)
    await rig.restore(ready)
    assert turn.reused(await answer(ready, turn.messages)) >= 0.99


async def killed_while(rig: ConversationsRig, ready: UpstreamReady, meanwhile: str) -> None:
    """It stops, so that it hangs in the middle of it, and is killed then."""
    pid = ready.upstream.pid or 0
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(rig.supervisor.watch(ready))
        moving = group.create_task(problem_of(rig, ready, meanwhile))
        await come_true(lambda: has_connection(pid, ready.upstream.address.port))
        os.kill(pid, signal.SIGKILL)

    assert moving.result()
    assert watching.result().exit_status.startswith("was terminated by SIGKILL")


async def problem_of(rig: ConversationsRig, ready: UpstreamReady, what: str) -> str:
    if what == "saving":
        saved = await rig.supervisor.save_conversations(rig.saving(ready))
        return saved.problem if saved else "it exited"
    restored = await rig.supervisor.restore_conversations(rig.restoring(ready))
    return restored.problem if restored else "it exited"


def has_connection(pid: int, port: int) -> bool:
    """Whether somebody is connected to the port."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


async def test_a_llama_server_that_hangs(rig: ConversationsRig) -> None:
    """It is killed when its time is over, and nothing of it stays on disk."""
    ready = await rig.ready(real("-np 1"))
    await next_turn(ready, TURN_1)
    os.kill(ready.upstream.pid or 0, signal.SIGSTOP)
    saved = await rig.save(ready, replace(PATIENT, within_s=0.3))

    assert (saved.saved, saved.problem) == ((), "the server had not answered after 0.3 seconds")
    assert (await rig.supervisor.watch(ready)).exit_status == "was terminated by SIGKILL"
    await come_true(lambda: not rig.files)


async def test_a_llama_server_that_hangs_and_is_stopped_by_a_command(rig: ConversationsRig) -> None:
    """It is left to the command: killing a client of a container would leave the container."""
    spec = real("-np 1")
    stopped = dataclasses.replace(spec, recipe=dataclasses.replace(spec.recipe, stop=("/bin/kill", "-KILL", "${PID}")))
    ready = await rig.ready(stopped)
    await next_turn(ready, TURN_1)
    os.kill(ready.upstream.pid or 0, signal.SIGSTOP)
    saved = await rig.save(ready, replace(PATIENT, within_s=0.3))

    assert saved.problem == "the server had not answered after 0.3 seconds"
    assert is_alive(ready.upstream.pid or 0)
    await rig.stop(ready)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
async def test_a_full_disk(rig: ConversationsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event says so, nothing is left of the file, and the server answers as before."""
    monkeypatch.setattr(saves_in_progress, "USUAL_TOKEN", 1)  # expected to fit
    ready = await rig.ready(real("-np 1"))
    turn = await next_turn(ready, TURN_1)
    (folder,) = rig.parent.iterdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    try:
        saved = await rig.save(ready)
        assert saved.saved == ()
        assert saved.problem == "POST /slots/0?action=save was answered with 500: Unable to save slot"
        await come_true(lambda: not rig.files)
        assert turn.reused(await answer(ready, turn.messages)) >= 0.99
        await rig.end(ready)
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_a_file_with_other_content_of_the_same_size(rig: ConversationsRig) -> None:
    """llama-server refuses it, and answers as without it."""
    spec = real("-np 1")
    ready = await rig.ready(spec)
    turn = await next_turn(ready, TURN_1)
    await rig.save(ready)
    await rig.end(ready)
    (file,) = rig.files
    file.write_bytes(os.urandom(file.stat().st_size))
    ready = await rig.ready(spec)
    restored = await rig.restore(ready)

    assert restored.restored == ()
    assert "answered with 400" in restored.problem
    await come_true(lambda: not rig.files)
    assert (await answer(ready, turn.messages))["timings"]["cache_n"] == 0
