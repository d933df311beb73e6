"""Ollama's API in front of the real llama-server, which does not have it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.ollama.__main__ import GAPS, TEMPLATED
from tests.ollama.recorded import CALL_BEGUN, HELLO, SCHEMA, WEATHER
from tests.support.client import chat_body
from tests.support.llama import EMBEDDINGS, llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama
SURE = {"temperature": 0}
FORCED = {"setParams": {"tool_choice": "required"}}
"""Models with random weights call no tool of their own accord."""


@pytest.fixture
def rig(serve: Callable[..., Hotseat]) -> Hotseat:
    options = f"{TEMPLATED} {GAPS}"
    models = {
        "alpha": llama("alpha", options),
        "caller": llama("alpha", options, filters=FORCED),
        "embed": llama("embed", EMBEDDINGS),
    }
    return serve(models)


def asked(rig: Hotseat, path: str, model: str = "alpha", **members: Any) -> list[dict[str, Any]]:
    """The lines of a response."""
    answer = rig.call("POST", path, {"model": model, **members})
    assert answer.status == 200, answer
    return [json.loads(line) for line in answer.body.splitlines()]


def said(lines: list[dict[str, Any]], member: str = "content") -> str:
    return "".join(line["message"].get(member, "") for line in lines)


def test_a_stream_says_what_a_whole_response_says(rig: Hotseat) -> None:
    """Both are what OpenAI's API says; the names that were listed with a tag work."""
    chat: dict[str, Any] = {"messages": [HELLO], "options": {**SURE, "num_predict": 12}, "think": False}
    lines = asked(rig, "/api/chat", "alpha:latest", **chat)
    [whole] = asked(rig, "/api/chat", stream=False, **chat)
    openai = chat_body("alpha", 12, chat_template_kwargs={"enable_thinking": False})

    assert len(lines) > 10
    assert said(lines) == said([whole]) == rig.call("POST", "/v1/chat/completions", openai).text()
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {line["model"] for line in lines} == {"alpha:latest"}
    for line in (lines[-1], whole):
        assert (line["done_reason"], line["eval_count"]) == ("length", 12)
        assert 0 < line["eval_duration"] < line["total_duration"]
        assert line["prompt_eval_count"] > len("hello")
        assert datetime.fromisoformat(line["created_at"]).tzinfo is UTC
    assert lines[-1]["load_duration"] > whole.get("load_duration", 0)


def test_a_prompt_with_and_without_a_template(rig: Hotseat) -> None:
    """A raw prompt has fewer tokens, and a gap is filled between two texts."""
    few: dict[str, Any] = {"options": {**SURE, "num_predict": 5}, "think": False, "stream": False}
    [templated] = asked(rig, "/api/generate", prompt="hello", **few)
    [raw] = asked(rig, "/api/generate", prompt="hello", raw=True, **few)
    [gap] = asked(rig, "/api/generate", prompt="hello", suffix="bye", **few)

    assert all(answer["response"] and answer["eval_count"] == 5 for answer in (templated, raw, gap))
    assert templated["prompt_eval_count"] > gap["prompt_eval_count"] > raw["prompt_eval_count"]


def test_an_answer_of_a_schema(rig: Hotseat) -> None:
    """The model can say nothing else."""
    lines = asked(rig, "/api/chat", messages=[HELLO], format=SCHEMA, options=SURE, think=False)

    assert isinstance(json.loads(said(lines))["is_hot"], bool)
    assert lines[-1]["done_reason"] == "stop"


def test_reasoning_can_be_wanted_or_not(rig: Hotseat) -> None:
    """The template decides with what the request says."""
    chat: dict[str, Any] = {"messages": [HELLO], "options": {**SURE, "num_predict": 8}}
    thinking, speaking = (asked(rig, "/api/chat", think=think, **chat) for think in (True, False))

    assert said(thinking, "thinking")
    assert not said(thinking)
    assert said(speaking)
    assert not said(speaking, "thinking")


def test_a_tool_is_called_and_its_result_read(rig: Hotseat) -> None:
    """The call comes with an object, and may be sent back as it came."""
    chat: dict[str, Any] = {"tools": [WEATHER], "options": {**SURE, "num_predict": 100}}
    [*_, calling, last] = asked(rig, "/api/chat", "caller", messages=[HELLO, CALL_BEGUN], **chat)
    call = calling["message"]["tool_calls"][0]["function"]
    result = {"role": "tool", "tool_name": "weather", "content": "rain"}
    [answer] = asked(
        rig, "/api/chat", messages=[HELLO, calling["message"], result], stream=False, options={"num_predict": 3}
    )

    assert call["name"] == "weather"
    assert isinstance(call["arguments"]["is_hot"], bool)
    assert last["done"]
    assert answer["prompt_eval_count"] > len("weather is_hot rain")


def test_texts_as_vectors(rig: Hotseat) -> None:
    """Of length one, on both paths."""
    [embed] = asked(rig, "/api/embed", "embed", input=["one", "two"])
    [embedding] = asked(rig, "/api/embeddings", "embed", prompt="one")

    assert [len(vector) for vector in embed["embeddings"]] == [256, 256]
    assert sum(number**2 for number in embed["embeddings"][0]) == pytest.approx(1)
    assert embedding["embedding"] == pytest.approx(embed["embeddings"][0])
    assert embed["prompt_eval_count"]


def test_errors_of_the_server_and_of_hotseat(rig: Hotseat) -> None:
    """Both are texts with a status."""
    wrong = rig.call("POST", "/api/chat", {"model": "alpha", "messages": [HELLO], "options": {"temperature": "hot"}})
    missing = rig.call("POST", "/api/chat", {"model": "zeta", "messages": [HELLO]})

    assert wrong.status == 400
    assert "temperature" in wrong.json()["error"]
    assert (missing.status, missing.json()) == (404, {"error": "model 'zeta' not found"})


def test_tokens_are_counted(rig: Hotseat) -> None:
    """The activity shows the path that the client asked for, and the server's counts."""
    asked(rig, "/api/generate", prompt="hello", options={"num_predict": 7})
    [entry] = eventually(lambda: rig.call("GET", "/hotseat/requests").json()["finished"])

    assert (entry["path"], entry["completion_tokens"]) == ("/api/generate", 7)
