"""The `hotseat` command itself, and the list of its commands in `--help`, in sections.

The commands with their options are in files that are imported when one of them is needed.
Each only passes its arguments to the module that does the work, and imports it when it runs.
"""

from __future__ import annotations

from collections import UserDict
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from hotseat import __version__

SECTIONS = {
    "First steps": ("init", "serve", "run", "check", "doctor"),
    "Models": ("list", "show", "pull", "rm", "estimate"),
    "Monitoring": ("ps", "top", "why", "logs", "activity", "usage", "devices"),
    "Control": ("load", "stop", "reload", "restart", "profile", "yield", "keys"),
    "Other": ("fleet", "systemd", "record", "simulate", "schema", "debug-bundle"),
}
FILES = {
    "setup_commands": ("init", "serve", "check", "schema"),
    "diagnosis_commands": ("doctor", "debug-bundle"),
    "model_commands": SECTIONS["Models"],
    "monitoring_commands": SECTIONS["Monitoring"],
    "control_commands": ("run", "load", "stop", "reload", "restart", "profile", "yield"),
    "trace_commands": ("record", "simulate"),
}
"""The commands that one file has; every other command has a file of its own, and commands of its own."""
MEANT = {
    "chat": "run",
    "delete": "rm",
    "download": "pull",
    "ls": "list",
    "models": "list",
    "remove": "rm",
    "start": "serve",
    "status": "ps",
    "unload": "stop",
}
"""What other programs call a command; similar letters would suggest `schema` for `chat`."""
WIDEST = 80


# Commands, contexts and formatters are Any: typer has its own click, which is private.
class Commands(UserDict[str, Any]):
    """The file of each command, and the command itself to whoever asks: only its file is imported."""

    def __init__(self) -> None:
        super().__init__({name: f"{name}_commands" for names in SECTIONS.values() for name in names})
        self.data.update({name: file for file, names in FILES.items() for name in names})

    def __getitem__(self, name: str) -> Any:
        file = self.data[name]
        if file in FILES:
            return commands_in(file).commands[name]
        return commands_in(file, name)


@cache
def commands_in(file: str, name: str | None = None) -> TyperGroup:
    group = get_group(import_module(f"hotseat.cli.{file}").app)
    group.name = name
    return group


class CommandList(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        column = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                texts = [self.commands[name].get_short_help_str(WIDEST) for name in names]
                formatter.write_dl([(name.ljust(column), text) for name, text in zip(names, texts, strict=True)])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if meant := MEANT.get(args[0]):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=CommandList,
    help="One HTTP address for all the models a machine can run.",
    epilog="Start with `hotseat init` and `hotseat serve`; then, in another terminal, `hotseat run MODEL`.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"hotseat {__version__}")
        raise typer.Exit


@app.callback()
def hotseat(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    pass
