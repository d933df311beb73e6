"""What hotseat's log says: one JSON object per line, between lines that Python itself has written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES_SHOWN = 20


def bugs_in(text: str) -> Iterator[str]:
    """What only a bug can have written: tracebacks, logged or not."""
    lines = text.splitlines()
    for n, line in enumerate(lines):
        if line.startswith("Traceback"):
            end = next((m for m in range(n + 1, len(lines)) if not lines[m].startswith(" ")), len(lines))
            yield shortened(lines[n : end + 1])
    for entry in entries(text):
        if trace := entry.get("trace"):
            yield f"{entry['message']}: {shortened(str(trace).splitlines())}"


def shortened(lines: list[str]) -> str:
    return " | ".join(lines[-LINES_SHOWN:])


def adopted_in(text: str) -> set[int]:
    """The servers that a new process has taken over, by pid."""
    return {entry["pid"] for entry in entries(text) if entry.get("message") == "model server adopted"}


def entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith('{"time"'):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # hotseat was killed while it wrote
