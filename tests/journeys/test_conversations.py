"""Conversations that survive swaps, and the folder in which they do."""

from __future__ import annotations

import json
import shlex
import signal
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import long_limits
from tests.support.changed_program import changed_program
from tests.support.conversations_rig import STAND_IN
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.processes import environment
from tests.support.supervisor_rig import PYTHON
from tests.support.waiting import eventually

from hotseat.cli.client import Server
from hotseat.cli.record import Watched
from hotseat.simulation.trace import Closed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.llama

QUESTION = "once upon a time there was a server that had to forget whatever it was told and learn it all again " * 8


def serve(folder: Path, cache: Path, port: int | None = None, **settings: object) -> Hotseat:
    """However busy the machine is, a save is not given up. These settings replace the usual ones."""
    folder.mkdir(exist_ok=True)
    program, environ = changed_program(folder, long_limits), {"XDG_CACHE_HOME": str(cache)}
    return Hotseat({**config("on"), **settings}, folder, program=program, environ=environ, port=port)


def config(conversations: str) -> dict[str, Any]:
    models = {"alpha": llama("alpha", "-np 1"), "beta": llama("beta", "-np 1")}
    return {"conversations": conversations, "models": models}


def answer(rig: Hotseat, messages: list[dict[str, str]], model: str = "alpha") -> Any:
    body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 8}
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


@pytest.mark.parametrize("conversations", ["on", "off"])
def test_a_recording_has_what_a_swap_costs(tmp_path: Path, conversations: str) -> None:
    """Both turns have the same figures whether the second one was computed again or not."""
    watched, opening = Watched(), [{"role": "user", "content": QUESTION}]
    with serve(tmp_path, tmp_path / "cache", conversations=conversations) as rig:
        feed = Server(rig.url, None).follow("/hotseat/traffic")
        watched.note(json.loads(next(feed)))
        first = answer(rig, opening)
        rig.load("beta")
        answer(rig, [*opening, first["choices"][0]["message"], {"role": "user", "content": "go on"}])
        while len(watched.recording.requests) < 2:
            watched.note(json.loads(next(feed)))
    trace = watched.recording.trace()
    [alpha], [client] = trace.models, trace.clients
    assert isinstance(client, Closed)
    before, after = (step.prompt for step in client.steps)

    assert before is not None
    assert after is not None
    assert before.new == first["usage"]["prompt_tokens"]
    assert before.new <= after.known <= before.tokens
    assert after.new < 0.2 * before.new
    assert (alpha.compute_rate or 0.0) > 0.0
    assert alpha.keeps_conversations is (conversations == "on")
    assert [bool(rate) for rate in (alpha.save_rate, alpha.restore_rate)] == [conversations == "on"] * 2


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
        save_both(rig, cache)
        rig.write(config("off"))
        assert rig.call("POST", "/hotseat/reload").status == 200

        eventually(lambda: not saved_in(cache))


def save_both(rig: Hotseat, cache: Path) -> None:
    for model in ("alpha", "beta"):
        answer(rig, [{"role": "user", "content": QUESTION}], model)
    rig.load("alpha")
    assert len(saved_in(cache)) == 2


def test_removing_a_model_removes_what_was_saved_of_it(tmp_path: Path) -> None:
    """So does another command; what other models have saved stays."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache) as rig:
        save_both(rig, cache)
        reload(rig, {"beta": llama("beta", "-np 1")})
        eventually(lambda: len(saved_in(cache)) == 1)
        reload(rig, {"beta": llama("beta", "-np 1 -c 4096")})

        eventually(lambda: not saved_in(cache))


def reload(rig: Hotseat, models: dict[str, Any]) -> None:
    rig.write({"conversations": "on", "models": models})
    assert rig.call("POST", "/hotseat/reload").status == 200


def test_what_was_saved_of_a_model_that_is_given_up_is_removed(tmp_path: Path) -> None:
    """A server that exits while it restores is started again without restoring, and `hotseat why` says so."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache, models=dying(tmp_path)) as rig:
        assert rig.call("POST", "/upstream/qwen/talk", {"tokens": [1000, 0], "busy": []}).status == 200
        rig.call("DELETE", "/upstream/qwen")
        assert len(saved_in(cache)) == 1
        rig.load("qwen")
        eventually(lambda: not saved_in(cache))
        answer = rig.cli("why", "qwen").stdout

    assert "its server exited while conversations were restored, so they are not saved any more" in answer


def dying(folder: Path) -> dict[str, Any]:
    """A server with slots, which hotseat takes for a llama-server, and which dies when it restores one."""
    program = folder / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*PYTHON, STAND_IN])} --trouble restore:dies "$@"\n')
    program.chmod(0o700)
    return {"qwen": {"cmd": f"{program} --port ${{PORT}}"}}


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


# Adopted servers


def continued(rig: Hotseat, first: Any) -> float:
    """The share of the first question that its continuation did not compute again."""
    more = [first["choices"][0]["message"], {"role": "user", "content": "go on"}]
    answered = answer(rig, [{"role": "user", "content": QUESTION}, *more])
    return float(answered["timings"]["cache_n"] / first["usage"]["prompt_tokens"])


def test_a_server_that_was_adopted_by_a_restart_saves_its_conversations(tmp_path: Path) -> None:
    """In the folder that its first hotseat made; the last one removes it."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache) as rig:
        first = answer(rig, [{"role": "user", "content": QUESTION}])
        (folder,) = folders_in(cache)
        for _ in range(2):
            assert rig.cli("restart").returncode == 0
        eventually(lambda: len(rig.processes(" serve ")) == 1)
        assert folders_in(cache) == [folder]
        rig.load("beta")
        assert len(saved_in(cache)) == 1

        assert continued(rig, first) >= 0.99
    assert folders_in(cache) == []


def test_what_was_saved_before_a_restart_is_restored_after_it(tmp_path: Path) -> None:
    """Also of a model that did not run during the restart."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache) as rig:
        first = answer(rig, [{"role": "user", "content": QUESTION}])
        rig.load("beta")
        saved = saved_in(cache)
        assert rig.cli("restart").returncode == 0
        eventually(lambda: len(rig.processes(" serve ")) == 1)

        assert saved_in(cache) == saved
        assert continued(rig, first) >= 0.99
    assert folders_in(cache) == []


def test_a_restart_with_conversations_switched_off(tmp_path: Path) -> None:
    """What was saved is removed, as after a reload."""
    cache = tmp_path / "cache"
    with serve(tmp_path, cache) as rig:
        answer(rig, [{"role": "user", "content": QUESTION}])
        rig.load("beta")
        assert saved_in(cache)
        rig.write(config("off"))
        assert rig.cli("restart").returncode == 0

        eventually(lambda: not saved_in(cache))
    assert folders_in(cache) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_a_server_that_was_adopted_after_a_crash_saves_its_conversations(tmp_path: Path, number: int) -> None:
    """Its folder is the only one that the next hotseat leaves, and goes with that one."""
    cache = tmp_path / "cache"
    first = serve(tmp_path, cache, crashGrace="10m")
    with first:
        opening = answer(first, [{"role": "user", "content": QUESTION}])
        (folder,) = folders_in(cache)
        first.process.send_signal(number)
        first.process.wait()
        with serve(tmp_path, cache, first.port, crashGrace="10m") as second:
            assert folders_in(cache) == [folder]
            second.load("beta")

            assert continued(second, opening) >= 0.99
    assert folders_in(cache) == []
