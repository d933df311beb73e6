"""The `hotseat systemd` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotseat.cli.shared_options import USUAL_CONFIG

app = typer.Typer(
    help="Run hotseat as a systemd service.",
    epilog="Example: hotseat systemd install --user",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("install", epilog="Example: hotseat systemd install --user")
def install_units(
    config: Annotated[
        Path, typer.Option("--config", help="Configuration file or folder of the service.")
    ] = USUAL_CONFIG,
    user: Annotated[bool, typer.Option("--user", help="A user unit, without root.")] = False,
    socket: Annotated[
        bool, typer.Option("--socket", help="Use socket activation: connections are not refused during a restart.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit file instead of writing it.")] = False,
) -> None:
    """Install the unit file; nothing is started."""
    from hotseat.cli.systemd_unit import UnitOptions, install, show

    options = UnitOptions(config, user, socket)
    show(options) if only_print else install(options, force)
