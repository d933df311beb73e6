"""What the real llama-server sent for requests of Ollama's API (`python -m tests.ollama` records it again)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.ollama.completions import error_text
from hotseat.ollama.requests import ENDPOINTS
from hotseat.ollama.responses import Situation, StreamTranslator, error_line, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.ollama.requests import Translation

SAMPLES = Path(__file__).with_name("samples")
HELLO = {"role": "user", "content": "hello"}
CALL_BEGUN = {"role": "assistant", "content": "<tool_call>\n"}
BRIEF = {"think": False}
"""Without reasoning, which llama-server asks for by default."""
FEW = {"num_predict": 4, "temperature": 0, "seed": 1}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "the weather",
        "parameters": {"type": "object", "properties": {"is_hot": {"type": "boolean"}}, "required": ["is_hot"]},
    },
}
SCHEMA = {"type": "object", "properties": {"is_hot": {"type": "boolean"}}, "required": ["is_hot"]}
CALL = {"messages": [HELLO, CALL_BEGUN], "tools": [WEATHER]}

ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/api/chat", {**BRIEF, "messages": [HELLO], "options": FEW}),
    "chat-whole": ("/api/chat", {**BRIEF, "messages": [HELLO], "options": FEW, "stream": False}),
    "think": ("/api/chat", {"messages": [HELLO], "options": FEW, "think": True}),
    "think-whole": ("/api/generate", {"prompt": "hello", "options": FEW, "think": True, "stream": False}),
    "schema": ("/api/chat", {**BRIEF, "messages": [HELLO], "options": {**FEW, "num_predict": 60}, "format": SCHEMA}),
    "tool": ("/api/chat", {**CALL, "options": {**FEW, "num_predict": 200}}),
    "tool-whole": ("/api/chat", {**CALL, "options": {**FEW, "num_predict": 200}, "stream": False}),
    "tool-cut": ("/api/chat", {**CALL, "options": {**FEW, "num_predict": 40}}),
    "generate": ("/api/generate", {**BRIEF, "prompt": "hello", "options": FEW}),
    "raw": ("/api/generate", {"prompt": "hello", "raw": True, "options": FEW}),
    "raw-whole": ("/api/generate", {"prompt": "hello", "raw": True, "options": FEW, "stream": False}),
    "gap": ("/api/generate", {"prompt": "hello", "suffix": "bye", "options": FEW}),
    "gap-whole": ("/api/generate", {"prompt": "hello", "suffix": "bye", "options": FEW, "stream": False}),
    "embed": ("/api/embed", {"input": ["one", "two"]}),
    "embeddings": ("/api/embeddings", {"prompt": "one"}),
    "error": ("/api/chat", {"messages": [HELLO], "options": {"temperature": "hot"}}),
}
"""Path and members of each request."""


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    status: int
    upstream: bytes

    @property
    def upstream_file(self) -> Path:
        return SAMPLES / f"{self.name}.upstream"

    @property
    def client_file(self) -> Path:
        return SAMPLES / f"{self.name}.client"

    @property
    def translation(self) -> Translation:
        path, members = ASKED[self.name]
        return ENDPOINTS[path.encode()].read(json.dumps(members).encode()).translation


def load(name: str) -> Sample:
    return Sample(name, 400 if name == "error" else 200, (SAMPLES / f"{name}.upstream").read_bytes())


def situation() -> Situation:
    """Three seconds after the request arrived, one of which it waited."""
    return Situation("alpha:latest", lambda: 1_700_000_000_000_000_123, lambda: 3.0, 1.0)


def translate(sample: Sample, pieces: Sequence[bytes] | None = None) -> bytes:
    """What the client gets, if the bytes arrive in these pieces."""
    if sample.status != 200:
        return error_line(error_text(sample.upstream, sample.status))
    translation = sample.translation
    if not translation.streams:
        return translated(translation.answer, situation(), sample.upstream)
    translator, lines = StreamTranslator(translation.answer, situation()), b""
    for piece in pieces or [sample.upstream]:
        more, problem = translator.feed(piece)
        assert problem is None, problem
        lines += more
    return lines + translator.end()
