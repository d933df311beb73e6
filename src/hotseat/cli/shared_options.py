"""Options that many commands share: the server, the API key, completed names, the configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotseat.cli.problems import MISREAD, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = "http://127.0.0.1:8080"
USUAL_CONFIG = Path("config.yaml")

Url = Annotated[
    str, typer.Option("--url", metavar="<url>", envvar="HOTSEAT_URL", help="Address of the running hotseat.")
]
Key = Annotated[
    str | None,
    typer.Option("--api-key", metavar="<key>", envvar="HOTSEAT_API_KEY", help="API key, if the server requires one."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
COMPLETION_S = 1.0
"""Nobody waits longer for shell completion."""


def names_here(context: typer.Context, incomplete: str, path: str, names: Callable[[Any], Iterable[str]]) -> list[str]:
    """Those in the answer of the server that the options typed so far select; none if no hotseat answers in time."""
    from hotseat.cli.client import Server

    server = Server(context.params.get("url") or HERE, context.params.get("api_key"), COMPLETION_S)
    try:
        return [name for name in names(server.ask("GET", path)) if name.startswith(incomplete)]
    except (Problem, *MISREAD):
        return []


def models_here(context: typer.Context, incomplete: str) -> list[str]:
    """Names for shell completion."""
    return names_here(
        context,
        incomplete,
        "/hotseat/models",
        lambda answer: (name for model in answer["models"] for name in (model["model"], *model["aliases"])),
    )


Model = Annotated[str, typer.Argument(help="A model's name or alias.", autocompletion=models_here)]
OneModel = Annotated[str | None, typer.Argument(help="A model's name or alias.", autocompletion=models_here)]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow new lines.")]
LINES = "Number of most recent lines."
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="<path>",  # newer versions of typer write <list[Path]>
        help="Configuration file, or a folder with *.yaml and *.yml files; repeatable. [default: config.yaml]",
    ),
]
Lenient = Annotated[bool, typer.Option("--lenient", help="Treat unknown keys as warnings, not errors.")]
