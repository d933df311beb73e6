"""A client's conversation with a model, and what its server reports about each turn."""

from __future__ import annotations

import http.client
import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.support.client import send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Seconds

PATIENCE_S: Seconds = 600.0
"""The big model computes about fifty tokens per second on one core."""
LETTERS = "abcdefghijklmnopqrstuvwxyz      "


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer; times are seconds since the epoch, as in hotseat's journal."""

    sent: float
    first_token: float
    text: str
    cached: int
    """Tokens of the prompt that the server did not compute."""
    computed: int


@dataclass(slots=True)
class Talk:
    """Greedy, so that an answer depends on nothing but what was said before."""

    messages: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def about(cls, name: str, tokens: int) -> Self:
        """Begin with a message of so many tokens; one character is one token of the models that we make."""
        rng = random.Random(name)
        return cls().say("".join(rng.choices(LETTERS, k=tokens)))

    def say(self, text: str) -> Self:
        self.messages.append({"role": "user", "content": text})
        return self

    def answer(self, port: int, model: str, words: int) -> Turn:
        """Ask the model, and note what it says."""
        turn = ask(port, model, self.messages, words)
        self.messages.append({"role": "assistant", "content": turn.text})
        return turn


def ask(port: int, model: str, messages: list[dict[str, str]], words: int) -> Turn:
    body = {"model": model, "messages": messages, "max_tokens": words, "temperature": 0, "stream": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    sent = time.time()
    try:
        response = send(connection, "POST", "/v1/chat/completions", body, {})
        if response.status != 200:
            raise SystemExit(f"no answer from {model}: {response.status} {response.read()[:300]!r}")
        return read_turn(sent, response)
    finally:
        connection.close()


def read_turn(sent: float, response: http.client.HTTPResponse) -> Turn:
    first, words, timings = 0.0, "", {"cache_n": 0, "prompt_n": 0}
    for event in events(response):
        said = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        first = first or (time.time() if said else 0.0)
        words += said
        timings = event.get("timings", timings)
    return Turn(sent, first, words, timings["cache_n"], timings["prompt_n"])


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))
