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

UnitConfig = Annotated[Path, typer.Option("--config", help="Configuration file of the service.")]
ForUser = Annotated[bool, typer.Option("--user", help="A user unit, without root.")]
WithSocket = Annotated[
    bool, typer.Option("--socket", help="Use socket activation: connections are not refused during a restart.")
]


@app.command("print", epilog="Example: hotseat systemd print --config /etc/hotseat/config.yaml")
def print_units(config: UnitConfig = USUAL_CONFIG, user: ForUser = False, socket: WithSocket = False) -> None:
    """Print the unit file."""
    from hotseat.cli.systemd_unit import UnitOptions, show

    show(UnitOptions(config, user, socket))


@app.command("install", epilog="Example: hotseat systemd install --user")
def install_units(
    config: UnitConfig = USUAL_CONFIG,
    user: ForUser = False,
    socket: WithSocket = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Install the unit file; nothing is started."""
    from hotseat.cli.systemd_unit import UnitOptions, install

    install(UnitOptions(config, user, socket), force)
