"""The `hotseat` command itself. Its commands are in the files that command_list.py names.

Each command only passes its arguments to the module that does the work, and imports it when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hotseat import __version__
from hotseat.cli.command_list import CommandList

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
