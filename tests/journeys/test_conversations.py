"""Conversations that survive swaps, and the folder in which they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama
from tests.support.processes import environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.llama

QUESTION = "once upon a time there was a server that had to forget whatever it was told and learn it all again " * 8


def serve(folder: Path, cache: Path, conversations: str = "on") -> ForkedHotseat:
    folder.mkdir(exist_ok=True)
    return ForkedHotseat(config(conversations), folder, environ={"XDG_CACHE_HOME": str(cache)})


def config(conversations: str) -> dict[str, Any]:
    models = {"alpha": llama("alpha", "-np 1"), "beta": llama("beta", "-np 1")}
    return {"conversations": conversations, "models": models}


def answer(rig: ForkedHotseat, messages: list[dict[str, str]]) -> Any:
    body = {"model": "alpha", "messages": messages, "temperature": 0, "max_tokens": 8}
    return rig.call("POST", "/v1/chat/completions", body).json()


def saved_in(cache: Path) -> list[Path]:
    return sorted(cache.glob("hotseat/conversations/*/*.slot"))


def folders_in(cache: Path) -> list[Path]:
    return sorted(cache.glob("hotseat/conversations/*"))


def test_a_conversation_goes_on_after_a_swap(tmp_path: Path) -> None:
    """Away and back: the server computes the new question only, and at the end nothing is left on disk."""
    cache = tmp_path / "cache"
    opening = [{"role": "user", "content": QUESTION}]
    with serve(tmp_path, cache) as rig:
        first = answer(rig, opening)
        rig.load("beta")
        assert saved_in(cache)
        more = [first["choices"][0]["message"], {"role": "user", "content": "go on"}]
        continued = answer(rig, [*opening, *more])
        log = rig.log()

    assert continued["timings"]["cache_n"] >= 0.99 * first["usage"]["prompt_tokens"]
    assert all(f"conversations {done}" in log for done in ("saved", "restored"))
    assert folders_in(cache) == []


def test_nothing_is_written_unless_conversations_are_on(tmp_path: Path) -> None:
    """No folder, and no variable for the server."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache, conversations="off") as rig:
        pid = rig.load("alpha")
        assert b"LLAMA_ARG_SLOT_SAVE_PATH" not in environment(pid)

    assert folders_in(cache) == []


def test_switching_it_off_removes_what_was_saved(tmp_path: Path) -> None:
    """At once, not when hotseat ends."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache) as rig:
        answer(rig, [{"role": "user", "content": QUESTION}])
        rig.load("beta")
        assert saved_in(cache)
        rig.write(config("off"))
        assert rig.call("POST", "/hotseat/reload").status == 200

        eventually(lambda: not saved_in(cache))


def test_what_a_killed_hotseat_left_is_removed_by_the_next_but_not_what_a_running_one_uses(tmp_path: Path) -> None:
    """Each of them has its own folder."""
    cache = tmp_path / "cache"
    with serve(tmp_path / "other", cache) as other:
        other.load("alpha")
        (theirs,) = folders_in(cache)
        with serve(tmp_path / "killed", cache) as killed:
            killed.load("alpha")
            assert len(folders_in(cache)) == 2
            killed.process.kill()
            killed.process.wait()
            eventually(lambda: not killed.processes())
        assert len(folders_in(cache)) == 2
        with serve(tmp_path / "next", cache):
            assert folders_in(cache) == [theirs]
