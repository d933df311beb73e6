"""`hotseat logs` and `hotseat fleet logs`: the output of model servers and hotseat's own log, in the order of time."""

from __future__ import annotations

import os
import sys
from shlex import quote
from typing import TYPE_CHECKING

from hotseat.api.log_text import body, from_json, head
from hotseat.cli.client import IS_IT, Refused, in_path
from hotseat.cli.problems import Problem
from hotseat.cli.tables import without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotseat.cli.client import Server
    from hotseat.identifiers import LogLine

NOT_FOUND = 404
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
OF_FLEET = "/hotseat/fleet/logs"


def logs(server: Server, model: str | None, lines: int, follow: bool, as_json: bool) -> None:
    if follow and model is not None:
        refuse_elsewhere(server, model, follow)  # or it would wait for output that comes on another host
    try:
        is_empty = not show_lines(lines_of(server, model, lines, follow), as_json, flush=follow)
    except Refused as refused:
        if refused.status == NOT_FOUND and model is not None:
            refuse_elsewhere(server, model, follow)
        raise
    if is_empty and lines and model is not None:
        refuse_elsewhere(server, model, follow)
        print(f"{model} has printed nothing so far; `hotseat why {model}` shows its state", file=sys.stderr)


def show_lines(lines: Iterable[str], as_json: bool, *, flush: bool) -> int:
    """Print each line, which is JSON; returns how many there were."""
    show = coloured if sys.stdout.isatty() and "NO_COLOR" not in os.environ else plain
    number = 0
    for line in lines:
        number += 1
        print(line if as_json else show(checked(line)), flush=flush)
    return number


def checked(line: str) -> LogLine:
    try:
        return from_json(line)
    except ValueError:
        raise Problem(f"the server sent something that is not a log line; {IS_IT}") from None


def refuse_elsewhere(server: Server, model: str, follow: bool) -> None:
    """Raises Problem if the model runs on other hosts of the fleet and not on this one."""
    try:
        fleet = server.ask("GET", "/hotseat/fleet")
    except Refused:  # there is no fleet, or the key does not allow it
        return
    name = own_name(server, model)
    holders = [host for host in fleet["hosts"] if any(each["model"] == name for each in host["residents"])]
    if holders and all(host["host"] != fleet["host"] for host in holders):
        names = ", ".join(host["host"] for host in holders)
        command = f"hotseat fleet logs {quote(name)}{' -f' if follow else ''}"
        raise Problem(f"{name} runs on {names}, and its log is there:\n  {command}")


def own_name(server: Server, model: str) -> str:
    """Of the model with this alias; as given if no host describes it."""
    try:
        return str(server.ask("GET", f"/hotseat/models/{in_path(model)}")["model"])
    except Refused:
        return model


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


def fleet_logs(server: Server, model: str | None, host: str | None, lines: int, follow: bool, as_json: bool) -> None:
    what = {name: value for name, value in (("model", model), ("host", host)) if value is not None}
    show_lines(fleet_lines_of(server, {**what, "lines": lines}, follow), as_json, flush=follow)


def fleet_lines_of(server: Server, query: dict[str, object], follow: bool) -> Iterator[str]:
    """Each line as JSON."""
    if follow:
        return server.follow(OF_FLEET, **query, follow="true")
    return iter(server.text(OF_FLEET, **query, json="true").splitlines())
