"""Log lines as text and as JSON. The command line uses it too, so it imports no web framework."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.json import Decoder

from hotseat.identifiers import HostName, LogLine, ModelName

if TYPE_CHECKING:
    from datetime import tzinfo

OWN = "hotseat"
LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Later times have no date in some time zones."""


class _Sent(Struct):
    """Whatever else is in a line of JSON is skipped, which costs little."""

    at: float
    text: str
    model: str | None = None
    level: str | None = None
    host: str | None = None


SENT = Decoder(_Sent)
SURROGATE = re.compile("[\ud800-\udfff]")


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


def from_json(text: str | bytes) -> LogLine:
    """ValueError if it is not a log line: another host or another program may have sent it."""
    try:
        said = SENT.decode(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"it is not a log line: {problem}") from None
    model, level, host = said.model, said.level, said.host
    if not (
        0 <= said.at < LATEST and all(each is None or _is_one_line(each) for each in (said.text, model, level, host))
    ):
        raise ValueError("it is not a log line: a member is wrong")
    return LogLine(said.at, said.text, ModelName(model) if model else None, level, HostName(host) if host else None)


def _is_one_line(value: str) -> bool:
    """With a line feed, it could pretend to be a line of another host; half a surrogate pair cannot be sent on."""
    return "\n" not in value and not SURROGATE.search(value)
