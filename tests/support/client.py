"""An HTTP client for a proxy under test, and `eventually`; standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import http.client
    from collections.abc import Iterator, Mapping

T = TypeVar("T")

PATIENCE_S = 90.0
"""With more work than processors, importing a program alone took half a minute."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def text(self) -> str:
        """The model's answer in a chat."""
        return str(self.json()["choices"][0]["message"]["content"])


@dataclass(slots=True)
class Stream:
    """A streamed answer; iterating reads the data of its events as they arrive."""

    response: http.client.HTTPResponse
    connection: http.client.HTTPConnection
    words: list[str] = field(default_factory=list)
    done: bool = False

    def __iter__(self) -> Iterator[str]:
        while line := self.response.readline():
            if line.startswith(b"data: "):
                yield self._note(line.removeprefix(b"data: ").decode().strip())

    def until_it_speaks(self) -> Self:
        while not self.words:
            next(iter(self))
        return self

    def read(self) -> Self:
        """Read to the end, whether clean or not."""
        try:
            for _ in self:
                pass
        finally:
            self.leave()
        return self

    def leave(self) -> None:
        self.response.close()
        self.connection.close()

    def _note(self, data: str) -> str:
        self.done = data == "[DONE]"
        choices = [] if self.done else json.loads(data).get("choices", [])
        self.words += [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
        return data


def chat_body(model: str, max_tokens: int, **fields: object) -> dict[str, Any]:
    """A chat with one deterministic answer per model."""
    messages = [{"role": "user", "content": "hello"}]
    return {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0, **fields}


def send(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    payload = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, payload, {**kind, **headers})
    return connection.getresponse()
