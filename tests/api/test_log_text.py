"""Log lines that another host or another program sends as JSON."""

from __future__ import annotations

import json

import pytest

from hotseat.api.log_text import as_json, as_text, from_json
from hotseat.identifiers import HostName, LogLine, ModelName

LINE = {"at": 1_700_000_000.5, "model": "qwen", "level": "info", "text": "loading", "host": "gpu2"}


def test_a_line_that_was_sent() -> None:
    """It is the same when it arrives."""
    line = LogLine(1_700_000_000.5, "a ⟨b⟩\tc", ModelName("qwen"), "info", HostName("gpu2"))

    assert from_json(as_json(line)) == line
    assert from_json(as_json(LogLine(0, ""))) == LogLine(0, "")


@pytest.mark.parametrize(
    "change",
    [
        {"at": None},
        {"at": "1700000000"},
        {"at": True},
        {"at": -1},
        {"at": float("nan")},
        {"at": float("inf")},
        {"at": 10**400},
        {"at": 253_402_300_799},
        {"text": None},
        {"text": ["loading"]},
        {"text": "loading\n2026-11-16T12:00:00.000Z gpu1 qwen | a line of another host"},
        {"text": "\ud800"},
        {"model": 7},
        {"model": {"name": "qwen"}},
        {"level": 30},
        {"level": "info\n"},
        {"host": ["gpu2"]},
    ],
)
def test_a_line_with_a_wrong_member(change: dict[str, object]) -> None:
    """It is refused: nothing of it could be shown, or it would be shown as several lines."""
    with pytest.raises(ValueError, match="is not a log line"):
        from_json(json.dumps({**LINE, **change}))


@pytest.mark.parametrize("text", ["", "<html>", "null", "7", '["at"]', "{}", '{"at": 0}', "[" * 200_000, b"\xff\xfe"])
def test_a_text_that_is_no_line(text: str | bytes) -> None:
    """It is refused, whatever it is."""
    with pytest.raises(ValueError):
        from_json(text)


@pytest.mark.parametrize("at", [0, 253_402_214_399])
def test_the_earliest_and_the_latest_time(at: float) -> None:
    """Each time that is accepted can be shown."""
    assert as_text(from_json(json.dumps({**LINE, "at": at}))).endswith("gpu2 qwen | INFO loading")
