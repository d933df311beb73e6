"""Log lines as text for people, and as JSON objects for programs, on standard output.

hotseat logs `constant sentence key=%s`. As text that is a line, optionally with a time. In JSON the sentence becomes
`message` and each value a member of its own, so that readers need not parse lines.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

from hotseat.settings import LogFormat

if TYPE_CHECKING:
    from typing import TextIO

    from hotseat.identifiers import ModelName
    from hotseat.settings import Logging
    from hotseat.telemetry.stdout_writer import StdoutWriter

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
# %f has microseconds; Python's clock has no more, so nanoseconds end in zeros.
TIME_FORMATS = {
    "ansic": "%a %b %e %H:%M:%S %Y",
    "unixdate": "%a %b %e %H:%M:%S %Z %Y",
    "rubydate": "%a %b %d %H:%M:%S %z %Y",
    "rfc822": "%d %b %y %H:%M %Z",
    "rfc822z": "%d %b %y %H:%M %z",
    "rfc850": "%A, %d-%b-%y %H:%M:%S %Z",
    "rfc1123": "%a, %d %b %Y %H:%M:%S %Z",
    "rfc1123z": "%a, %d %b %Y %H:%M:%S %z",
    "rfc3339": "%Y-%m-%dT%H:%M:%S{offset}",
    "rfc3339nano": "%Y-%m-%dT%H:%M:%S.%f000{offset}",
    "kitchen": "{hour}:%M%p",
    "stamp": "%b %e %H:%M:%S",
    "stampmilli": "%b %e %H:%M:%S.{milli}",
    "stampmicro": "%b %e %H:%M:%S.%f",
    "stampnano": "%b %e %H:%M:%S.%f000",
}
_PLACE = r"%[-#0 +]*\d*(?:\.\d+)?[a-z]"
_PLACES = re.compile(rf"(?: (\w+)=)?{_PLACE}")
_NAMED = re.compile(rf" \w+={_PLACE}")


def set_up(settings: Logging, writer: StdoutWriter | None = None, recent: logging.Handler | None = None) -> None:
    """Configure logging as the configuration says; call it again after a reload.

    With `writer` no log line blocks its caller, even if nobody reads our output. `recent` gets every line, even if
    none goes to standard output.
    """
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.setLevel(LEVELS.get(settings.level, logging.INFO))
    root.addHandler(recent or logging.NullHandler())
    if settings.to_stdout in ("proxy", "both"):
        root.addHandler(to_stdout(settings, writer))


def to_stdout(settings: Logging, writer: StdoutWriter | None) -> logging.Handler:
    handler = logging.StreamHandler(sys.stdout) if writer is None else Queued(writer)
    handler.setFormatter(Lines(settings.time_format) if is_text(settings) else JsonLines())
    return handler


class Queued(logging.Handler):
    def __init__(self, writer: StdoutWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put_line(self.format(record))
        except Exception:
            self.handleError(record)


def is_text(settings: Logging) -> bool:
    """Whether our lines are text, not JSON."""
    if settings.form is LogFormat.AUTO:
        return sys.stdout.isatty() or is_journal(sys.stdout)
    return settings.form is LogFormat.TEXT


def is_journal(stream: TextIO) -> bool:
    """Whether systemd's journal reads it: people use journalctl, which shows each line as it is."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or not a file
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class Lines(logging.Formatter):
    """`12:00:00 WARNING model server crashed model=qwen`; never coloured, so that a file reads like a terminal."""

    def __init__(self, time_format: str = "") -> None:
        super().__init__("%(levelname)s %(message)s")
        self._time_format = time_format

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        moment = datetime.fromtimestamp(record.created).astimezone()
        stamp = stamped(moment, self._time_format)
        return f"{stamp} {line}" if stamp else line


def stamped(moment: datetime, name: str) -> str:
    """The time in one of the fifteen formats that Go names; empty for an unknown or empty name."""
    pattern = TIME_FORMATS.get(name.lower(), "")
    text = moment.strftime(pattern)
    return text.format(offset=offset_of(moment), hour=moment.hour % 12 or 12, milli=f"{moment.microsecond // 1000:03}")


def offset_of(moment: datetime) -> str:
    """`Z` for UTC, else `+02:00`."""
    offset = moment.strftime("%z")
    return "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"


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
