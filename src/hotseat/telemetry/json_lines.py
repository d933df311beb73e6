"""The log for programs: one JSON object per line, from every source.

hotseat logs `constant sentence key=%s`; the sentence becomes `message` and each value a member of its own, so that
readers need not parse lines. Counterpart: logs.py, which has the text format.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import ModelName

_PLACE = r"%[-#0 +]*\d*(?:\.\d+)?[a-z]"
_PLACES = re.compile(rf"(?: (\w+)=)?{_PLACE}")
_NAMED = re.compile(rf" \w+={_PLACE}")


class JsonLines(logging.Formatter):
    """`{"time": …, "level": "info", "logger": …, "message": "model server ready", "model": "qwen"}`"""

    def format(self, record: logging.LogRecord) -> str:
        sentence, fields = taken_apart(record)
        about = {"time": in_utc(record.created), "level": record.levelname.lower(), "logger": record.name}
        trace = {"trace": self.formatException(record.exc_info)} if record.exc_info else {}
        return line_of({**about, "message": sentence, **fields, **trace})


def taken_apart(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The sentence and the values by name; the whole line is the sentence if it does not have our form."""
    text, values = str(record.msg), record.args
    names = [match[1] for match in _PLACES.finditer(text.replace("%%", ""))]
    if not isinstance(values, tuple) or len(names) != len(values):
        return record.getMessage(), {}
    fields = {name: plain(value) for name, value in zip(names, values, strict=True) if name}
    unnamed = tuple(value for name, value in zip(names, values, strict=True) if not name)
    return _NAMED.sub("", text) % unnamed, fields


def plain(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6) if isfinite(value) else str(value)
    return value if value is None or isinstance(value, int | str) else str(value)


def in_utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line_of(members: dict[str, object]) -> str:
    # What a process wrote need not be UTF-8, and strict readers refuse the lone surrogates that result.
    return json.dumps({name: in_unicode(value) if isinstance(value, str) else value for name, value in members.items()})


def in_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def server_line(model: ModelName, line: str, now: float) -> str:
    """A line of a model server's output as a line of this log."""
    about = {"time": in_utc(now), "level": "info", "logger": "upstream"}
    return line_of({**about, "message": line, "model": model})
