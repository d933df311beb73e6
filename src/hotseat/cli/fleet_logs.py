"""`hotseat fleet logs`: the output of a model's server, or a host's own log, wherever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.cli.logs import show_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.cli.client import Server

PATH = "/hotseat/fleet/logs"


def logs(server: Server, model: str | None, host: str | None, lines: int, follow: bool, as_json: bool) -> None:
    what = {name: value for name, value in (("model", model), ("host", host)) if value is not None}
    show_lines(lines_of(server, {**what, "lines": lines}, follow), as_json, flush=follow)


def lines_of(server: Server, query: dict[str, object], follow: bool) -> Iterator[str]:
    """Each line as JSON."""
    if follow:
        return server.follow(PATH, **query, follow="true")
    return iter(server.text(PATH, **query, json="true").splitlines())
