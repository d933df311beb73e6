"""`hotseat logs`: the output of the model servers and hotseat's own log, in the order of time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hotseat.api.log_text import body, from_json, head
from hotseat.cli.tables import without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.cli.client import Server
    from hotseat.identifiers import LogLine

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}


def logs(server: Server, model: str | None, lines: int, follow: bool, as_json: bool) -> None:
    show = coloured if sys.stdout.isatty() and "NO_COLOR" not in os.environ else plain
    for line in lines_of(server, model, lines, follow):
        print(line if as_json else show(from_json(line)), flush=follow)


def lines_of(server: Server, model: str | None, lines: int, follow: bool) -> Iterator[str]:
    """Each line as JSON."""
    query: dict[str, object] = {"lines": lines} if model is None else {"lines": lines, "model": model}
    if follow:
        return server.follow("/hotseat/logs", **query, follow="true")
    return iter(server.text("/hotseat/logs", **query, json="true").splitlines())


def plain(line: LogLine) -> str:
    """In the time of this machine."""
    return without_escapes(f"{head(line, None)} | {body(line)}")


def coloured(line: LogLine) -> str:
    colour = COLOURS.get(line.level or "", "")
    said = without_escapes(body(line))
    return f"{DIM}{without_escapes(head(line, None))} |{PLAIN} {colour}{said}{PLAIN if colour else ''}"
