"""Log lines as text and as JSON. The command line uses it too, so it imports no web framework."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hotseat.identifiers import HostName, LogLine, ModelName

if TYPE_CHECKING:
    from datetime import tzinfo

OWN = "hotseat"


def as_text(line: LogLine, zone: tzinfo | None = UTC) -> str:
    """`2026-11-16T12:00:00.123Z qwen | loading`; after the bar, a line of hotseat's own has its level first."""
    return f"{head(line, zone)} | {body(line)}"


def head(line: LogLine, zone: tzinfo | None) -> str:
    host = f"{line.host} " if line.host else ""
    return f"{moment(line.at, zone)} {host}{line.model or OWN}"


def body(line: LogLine) -> str:
    return f"{line.level.upper()} {line.text}" if line.level else line.text


def moment(at: float, zone: tzinfo | None) -> str:
    """With the offset of `zone`; None: the zone of this machine."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_json(line: LogLine) -> str:
    members = {"at": round(line.at, 3), "model": line.model, "level": line.level, "text": line.text}
    return json.dumps(members | ({"host": line.host} if line.host else {}))


def from_json(text: str) -> LogLine:
    members = json.loads(text)
    model, host = members["model"], members.get("host")
    return LogLine(
        members["at"],
        members["text"],
        ModelName(model) if model else None,
        members["level"],
        HostName(host) if host else None,
    )
