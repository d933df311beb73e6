"""Tokens as the real llama-server counts them: in its answers, streams and embeddings, on every road."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.client import chat_body
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def counted(rig: Hotseat, path: str, **body: Any) -> tuple[int | None, int | None, bool]:
    """What the activity says of one request: tokens in, tokens out, and whether their rate is known."""
    mine = uuid4().hex
    answer = rig.call("POST", path, body, **{"X-Request-Id": mine})
    assert answer.status == 200, answer
    assert answer.headers["X-Request-Id"] == mine
    [ended] = eventually(lambda: finished(rig, mine))
    return ended["prompt_tokens"], ended["completion_tokens"], ended["tokens_per_s"] is not None


def finished(rig: Hotseat, request: str) -> list[dict[str, Any]]:
    return [each for each in rig.call("GET", "/hotseat/requests").json()["finished"] if each["id"] == request]


def test_every_kind_of_answer_is_counted(rig: Hotseat) -> None:
    """Chats and completions, whole and streamed, in three dialects."""
    chat = chat_body("alpha", 5)
    whole = counted(rig, "/v1/chat/completions", **chat)
    prompt = whole[0]

    assert whole == (prompt, 5, True)
    assert prompt
    streams = {"stream": True, "stream_options": {"include_usage": True}}
    assert counted(rig, "/v1/chat/completions", **chat, **streams) == (prompt, 5, True)
    assert counted(rig, "/v1/chat/completions", **chat, stream=True)[1:] == (5, True)
    assert counted(rig, "/completion", model="alpha", prompt="hello", n_predict=6)[1:] == (6, True)
    assert counted(rig, "/v1/messages", **chat)[:2] == (prompt, 5)
    assert counted(rig, "/v1/messages", **chat, stream=True)[:2] == (prompt, 5)
    assert 'hotseat_completion_tokens_total{model="alpha"} 31.0' in rig.call("GET", "/metrics").body.decode()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_was_just_computed_is_cached(rig: Hotseat, path: str, stream: bool) -> None:
    """Whatever the API, all but the last token of a repeated prompt come from llama-server's cache."""
    message = {"role": "user", "content": f"once more {path} {stream}"}
    body = {**chat_body("beta", 3), "messages": [message], "stream": stream}
    first, second = uuid4().hex, uuid4().hex
    for mine in (first, second):
        assert rig.call("POST", path, body, **{"X-Request-Id": mine}).status == 200
    [again] = eventually(lambda: finished(rig, second))

    assert again["cached_tokens"] >= 0.9 * again["prompt_tokens"] > 0


def test_embeddings_are_counted(rig: Hotseat) -> None:
    """They have a prompt only."""
    prompt, completion, _ = counted(rig, "/v1/embeddings", model="embed", input="hello")

    assert prompt
    assert completion is None


def test_the_activity_outlives_hotseat(tmp_path: Path) -> None:
    """What ended is kept where that is configured, up to the last request before the end."""
    config = {"activity": {"keepDays": 7}, "models": {"alpha": llama("alpha")}}
    with ForkedHotseat(config, tmp_path) as rig:
        rig.chat("alpha", 5, **{"X-Request-Id": "mine"})
    with ForkedHotseat(config, tmp_path) as rig:
        printed = rig.cli("activity", "--model", "alpha")
        assert printed.returncode == 0, printed

    assert printed.stdout.splitlines()[1].split()[-1] == "mine", printed
    assert "from memory" not in printed.stdout
