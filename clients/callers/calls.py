"""The client's end of the pipe: one call per line of stdin, one outcome per line of stdout. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

URL, QUESTION = sys.argv[1:]
MESSAGES: Any = [{"role": "user", "content": QUESTION}]  # each client has a type of its own for it
KEY = os.environ.get("HOTSEAT_KEY", "none")
ENOUGH = 3


class Client(Protocol):
    limit_s: float | None
    """After how long without a byte it gives up by default; None: never."""

    def ask(self, model: str) -> str: ...

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        """The pieces of the answer; closing it closes the stream as a user of this client would."""
        ...


def take_calls(client: Client, package: str) -> None:
    take_calls_as(client, version(package))


def take_calls_as(client: Client, its_version: str) -> None:
    # Some clients print to stdout; only outcomes may go through the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"version": its_version, "limit_s": client.limit_s}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(outcome(client, **json.loads(line))), file=answers, flush=True)


def outcome(client: Client, act: str, model: str, limit_s: float | None) -> dict[str, Any]:
    pieces: list[str] = []
    error = left_at = None
    try:
        if act == "ask":
            pieces.append(client.ask(model))
        else:
            left_at = listen(client.stream(model, limit_s), pieces, leave=act == "leave")
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    return {"text": "".join(pieces), "pieces": len(pieces), "error": error, "left_at": left_at}


def listen(answer: Generator[str, None, None], pieces: list[str], leave: bool) -> float | None:
    """Collect the pieces; if the caller leaves early, return the time of that."""
    with closing(answer) as stream:
        for piece in filter(None, stream):
            pieces.append(piece)
            if leave and len(pieces) == ENOUGH:
                break
        else:
            return None
    return time.monotonic()
