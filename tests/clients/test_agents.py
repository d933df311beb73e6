"""Requests of chat interfaces and coding agents, replayed: a real llama-server answers each of them through hotseat.

Members and headers are those that the programs sent when they were run (2026-11-15: aider 0.86.2, opencode 1.18.33,
Claude Code 2.1.197, Continue's chat 1.5.47; 2026-11-16: Codex 0.166.0). The requests of Open WebUI and of Continue's
completion were not recorded but follow from their documentation. The texts are ours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import EMBEDDINGS, llama

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.client import Answer
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

HELLO = {"role": "user", "content": "hello"}
FEW = 6
TOOL = {
    "name": "read_file",
    "description": "Read a file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
SESSION = "ses_0123456789abcdef"


@dataclass(frozen=True)
class Asked:
    """One request of a program."""

    who: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.who


OPENAI_PYTHON = {
    "User-Agent": "OpenAI/Python 2.20.0",
    "X-Stainless-Lang": "python",
    "x-stainless-read-timeout": "600.0",
}
OPENCODE = {
    "User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14",
    "x-session-affinity": SESSION,
    "x-session-id": SESSION,
    "Accept-Encoding": "gzip, deflate, br, zstd",
}
CLAUDE_CODE = {
    "Authorization": "Bearer none",
    "User-Agent": "claude-cli/2.1.197 (external, sdk-cli)",
    "X-Claude-Code-Session-Id": SESSION,
    "X-Stainless-Lang": "js",
    "X-Stainless-Timeout": "600",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-dangerous-direct-browser-access": "true",
    "anthropic-version": "2023-06-01",
    "x-app": "cli",
    "Accept-Encoding": "gzip, deflate, br, zstd",
}

STREAMS = [
    Asked(
        "aider",
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": "edit"}, HELLO], "stream": True, "temperature": 0},
        OPENAI_PYTHON,
    ),
    Asked(
        "opencode with its tools",
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "help"}, HELLO],
            "tools": [{"type": "function", "function": TOOL}],
            "tool_choice": "auto",
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        OPENCODE,
    ),
    Asked(
        "Continue's chat",
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "help"}, HELLO],
            "tools": [{"type": "function", "function": TOOL}],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        {"User-Agent": "ls/JS 5.23.2", "X-Stainless-Lang": "js", "Authorization": "Bearer none"},
    ),
    Asked(
        "Continue's completion",
        "/v1/completions",
        {
            "prompt": "<|fim_prefix|>def <|fim_suffix|><|fim_middle|>",
            "stream": True,
            "stop": ["\n\n"],
            "temperature": 0.01,
        },
    ),
    Asked(
        "Open WebUI's chat",
        "/v1/chat/completions",
        {"messages": [HELLO], "stream": True},
        {"Authorization": "Bearer none", "User-Agent": "Python/3.11 aiohttp/3.12.15"},
    ),
]
CLAUDE_BODY = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}
    ],
    "system": [{"type": "text", "text": "help"}],
    "tools": [{"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}],
    "metadata": {"user_id": "nobody"},
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "stream": True,
}


CODEX = {
    "User-Agent": "codex_exec/0.166.0",
    "Accept": "text/event-stream",
    "originator": "codex_exec",
    "session-id": SESSION,
}
CODEX_BODY = {
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "help"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
    ],
    "tools": [{"type": "function", "strict": False, **TOOL}, {"type": "web_search"}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": SESSION,
    "client_metadata": {"session_id": SESSION},
    "max_output_tokens": FEW,
    "stream": True,
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """A model with tools, under a name that an agent requires, and one for embeddings."""
    models = {
        "qwen": llama("alpha", "--jinja", aliases=["claude-sonnet-4-5"]),
        "embed": llama("embed", EMBEDDINGS),
    }
    with ForkedHotseat({"models": models}, tmp_path_factory.mktemp("agents")) as hotseat:
        yield hotseat


def ask(rig: Hotseat, asked: Asked, model: str = "qwen") -> Answer:
    body = {"model": model, "max_tokens": FEW, **asked.body}
    return rig.call("POST", asked.path, body, **asked.headers)


@pytest.mark.parametrize("asked", STREAMS, ids=str)
def test_a_stream_comes_to_its_proper_end(rig: Hotseat, asked: Asked) -> None:
    """The program receives text, a finish reason, and [DONE]."""
    answer = ask(rig, asked)
    events = [line.removeprefix("data: ") for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    said = [json.loads(event) for event in events[:-1]]

    assert answer.status == 200
    assert events[-1] == "[DONE]"
    assert [choice["finish_reason"] for event in said for choice in event["choices"] if choice["finish_reason"]]


@pytest.mark.parametrize("name", ["qwen", "claude-sonnet-4-5"])
def test_claude_code_receives_a_whole_message(rig: Hotseat, name: str) -> None:
    """The answer has Anthropic's events, for the model's own name and for an alias."""
    answer = ask(rig, Asked("Claude Code", "/v1/messages?beta=true", CLAUDE_BODY, CLAUDE_CODE), name)
    events = [line.removeprefix("event: ") for line in answer.body.decode().splitlines() if line.startswith("event: ")]

    assert answer.status == 200
    assert (events[0], events[-1]) == ("message_start", "message_stop")


def test_codex_receives_a_whole_response(rig: Hotseat) -> None:
    """The answer has the events of the Responses API, from the first to the last."""
    answer = ask(rig, Asked("Codex", "/v1/responses", CODEX_BODY, CODEX))
    events = [line.removeprefix("event: ") for line in answer.body.decode().splitlines() if line.startswith("event: ")]

    assert answer.status == 200
    assert (events[0], events[-1]) == ("response.created", "response.completed")


def test_claude_code_counts_tokens(rig: Hotseat) -> None:
    """Anthropic's API for counting tokens works."""
    body = {"messages": [HELLO]}
    answer = rig.call("POST", "/v1/messages/count_tokens?beta=true", {"model": "qwen", **body}, **CLAUDE_CODE)

    assert answer.status == 200
    assert answer.json()["input_tokens"] > 0


def test_claude_code_can_read_a_refusal(rig: Hotseat) -> None:
    """The error about an unknown model has Anthropic's form."""
    answer = ask(rig, Asked("Claude Code", "/v1/messages?beta=true", CLAUDE_BODY, CLAUDE_CODE), "opus")

    assert answer.status == 404
    assert answer.json()["type"] == "error"
    assert "opus" in answer.json()["error"]["message"]


def test_a_probe_of_the_bare_address_is_answered_at_once(rig: Hotseat) -> None:
    """Claude Code sends HEAD / before anything else; whatever the answer is, it starts no model."""
    running = rig.running()
    answer = rig.call("HEAD", "/")

    assert answer.status < 500
    assert rig.running() == running


def test_open_webui_sees_every_model_and_starts_none(rig: Hotseat) -> None:
    """Its page waits for the list."""
    running = rig.running()
    names = [entry["id"] for entry in rig.call("GET", "/v1/models", Authorization="Bearer none").json()["data"]]

    assert names == ["qwen", "embed"]
    assert rig.running() == running


def test_documents_are_embedded(rig: Hotseat) -> None:
    """Open WebUI and Continue send texts in batches."""
    answer = rig.call("POST", "/v1/embeddings", {"model": "embed", "input": ["one", "two"]})

    assert [entry["index"] for entry in answer.json()["data"]] == [0, 1]
