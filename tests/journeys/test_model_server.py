"""What llama-server can do, it can do through hotseat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support.llama import SERVER, llama
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_a_stream_is_relayed_as_it_is_spoken(rig: Hotseat) -> None:
    """The first word arrives while the model still speaks, and all of them arrive."""
    long = rig.stream("alpha", max_tokens=4000).until_it_speaks()
    slots = rig.call("GET", "/slots").json()
    long.leave()
    short = rig.stream("alpha", max_tokens=50).read()

    assert any(slot["is_processing"] for slot in slots)
    assert (len(short.words), short.done) == (50, True)


def test_the_model_server_checks_its_own_key(serve: Callable[..., Hotseat]) -> None:
    """Authorization reaches the model server untouched: 401 from it without its key, 200 with it."""
    rig = serve({"locked": llama("alpha", "--api-key sesame")})
    without = rig.chat("locked")
    wrong = rig.chat("locked", Authorization="Bearer guess")
    right = rig.chat("locked", Authorization="Bearer sesame")

    assert (without.status, wrong.status, right.status) == (401, 401, 200)
    assert "Invalid API Key" in without.json()["error"]["message"]


def test_a_response_names_the_model_as_the_client_does(serve: Callable[..., Hotseat]) -> None:
    """Without an alias in its command, llama-server would name the path of the file."""
    rig = serve({"qwen": llama("alpha"), "own": llama("alpha", "--alias mine")})

    assert rig.chat("qwen").json()["model"] == "qwen"
    assert rig.chat("own").json()["model"] == "mine"


def test_a_server_behind_a_script_is_shown_with_its_own_pid(serve: Callable[..., Hotseat]) -> None:
    """Not with that of the script, which has no port and little memory."""
    alpha = llama("alpha")
    rig = serve({"alpha": {**alpha, "cmd": f"sh -c '{alpha['cmd']}; true'"}})
    rig.load("alpha")
    shown = rig.call("GET", "/hotseat/models/alpha").json()["pid"]

    assert command_line(shown).startswith(str(SERVER))
    assert rig.health()["alpha"]["pid"] == shown


def test_slots_of_the_running_model(rig: Hotseat) -> None:
    """GET /slots is answered by the model that runs, and starts none."""
    before = rig.call("GET", "/slots")
    started = rig.running()
    rig.load("alpha")
    slots = rig.call("GET", "/slots")

    assert (before.status, started) == (400, [])
    assert slots.status == 200
    assert [slot["id"] for slot in slots.json()] == list(range(len(slots.json())))


def test_text_is_tokenized_while_the_only_slot_is_taken(serve: Callable[..., Hotseat]) -> None:
    """Only what the server computes waits for a slot: a POST that does not is answered meanwhile."""
    rig = serve({"alpha": llama("alpha", "-np 1")})
    stream = rig.stream("alpha", max_tokens=3000).until_it_speaks()
    answer = rig.call("POST", "/tokenize", {"model": "alpha", "content": "a seat"})
    slots = rig.call("GET", "/slots").json()
    stream.leave()

    assert (answer.status, len(answer.json()["tokens"])) == (200, 6)
    assert any(slot["is_processing"] for slot in slots)  # so it did not wait for that


def test_a_grammar_binds_the_answer(rig: Hotseat) -> None:
    """POST /completion with a grammar gives a sentence of that grammar."""
    grammar = 'root ::= "seat " ("taken" | "free")'
    body = {"model": "beta", "prompt": "status: ", "n_predict": 40, "grammar": grammar}
    answer = rig.call("POST", "/completion", body)

    assert answer.status == 200
    assert answer.json()["content"] in ("seat taken", "seat free")


def test_embeddings_of_one_text_and_of_a_batch(rig: Hotseat) -> None:
    """One text gives one vector; a batch gives one each, in order, and the same vector for the same text."""
    one = rig.call("POST", "/v1/embeddings", {"model": "embed", "input": "a seat"}).json()
    batch = rig.call("POST", "/v1/embeddings", {"model": "embed", "input": ["a table", "a seat"]}).json()

    assert one["object"] == batch["object"] == "list"
    assert [entry["index"] for entry in batch["data"]] == [0, 1]
    assert one["data"][0]["embedding"] == pytest.approx(batch["data"][1]["embedding"], abs=1e-3)
    assert batch["data"][0]["embedding"] != pytest.approx(batch["data"][1]["embedding"], abs=1e-3)


def test_a_model_that_never_becomes_ready(serve: Callable[..., Hotseat]) -> None:
    """A health check that never says 200 ends in 503 after healthCheckTimeout, and no process is left."""
    never = llama("alpha", "--api-key sesame", checkEndpoint="/slots", healthCheckTimeout=2)
    rig = serve({"never": never, "beta": llama("beta")})
    answer = rig.chat("never")

    assert answer.status == 503
    assert "timed out after 2 seconds" in answer.json()["error"]
    assert rig.upstreams() == []
    assert rig.chat("beta").status == 200


def test_a_model_file_that_is_missing(serve: Callable[..., Hotseat]) -> None:
    """503 with the path, at once and however often; the model that is loaded stays."""
    broken = llama("alpha")
    rig = serve({"broken": {"cmd": broken["cmd"].replace("alpha.gguf", "lost.gguf")}, "beta": llama("beta")})
    assert rig.chat("beta").status == 200
    before = rig.upstreams()
    answers = [rig.chat("broken"), rig.call("POST", "/upstream/broken/load"), rig.chat("broken")]

    for answer in answers:
        assert answer.status == 503
        assert re.search(r'the file "/\S+/lost.gguf" does not exist', answer.json()["error"])
        assert not answer.headers["retry-after"]
    assert rig.upstreams() == before


def test_a_model_that_is_estimated_larger_than_the_budget(serve: Callable[..., Hotseat]) -> None:
    """It is started alone and answers; one that fails so is refused with its figure and what to declare."""
    broken = {"cmd": str(llama("beta")["cmd"]) + " --no-such-option"}
    rig = serve({"alpha": llama("alpha"), "broken": broken}, devices={"ram": {"memory": "8MiB"}})
    answer, failed = rig.chat("alpha"), rig.chat("broken")
    again = rig.chat("alpha").status
    refused = rig.chat("broken")

    assert (answer.status, failed.status, again, refused.status) == (200, 503, 200, 503)
    assert re.search(r"\(estimated\), more than the .* left on ram; declare `memory` for", refused.json()["error"])
    assert len(rig.upstreams()) == 1
