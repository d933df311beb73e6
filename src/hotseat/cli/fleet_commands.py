"""The `hotseat fleet` commands."""

from __future__ import annotations

from typing import Annotated

import typer

from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, AsJson, Key, Model, Url, told_here

app = typer.Typer(
    help="See the hosts of a fleet, close them, and move models between them.",
    epilog="Example: hotseat fleet status",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def hosts_here(context: typer.Context, incomplete: str) -> list[str]:
    """Host names for shell completion; none if the server is not in a fleet."""
    hosts = told_here(context, "/hotseat/fleet").get("hosts", ())
    return [host["host"] for host in hosts if host["host"].startswith(incomplete)]


Host = Annotated[str, typer.Argument(help="A host's name.", autocompletion=hosts_here)]


@app.command("status", epilog="Example: hotseat fleet status --json")
def show(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show the hosts, what is on them and how they stand, as far as the one that is asked knows."""
    from hotseat.cli.fleet import status

    status(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat fleet cordon gpu2")
def cordon(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Place nothing new on a host; what is there goes on serving."""
    from hotseat.cli.fleet import give

    give(Server(url, api_key), host, "cordon")


@app.command(epilog="Example: hotseat fleet uncordon gpu2")
def uncordon(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Let models be placed on a host again."""
    from hotseat.cli.fleet import take_back

    take_back(Server(url, api_key), host, "cordon")


@app.command(epilog="Example: hotseat fleet drain gpu2")
def drain(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Send a host no new requests and let its models go as they fall idle, as before a restart."""
    from hotseat.cli.fleet import give

    give(Server(url, api_key), host, "drain")


@app.command(epilog="Example: hotseat fleet undrain gpu2")
def undrain(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Let a host serve again."""
    from hotseat.cli.fleet import take_back

    take_back(Server(url, api_key), host, "drain")


@app.command(epilog="Example: hotseat fleet move qwen gpu2")
def move(model: Model, host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Load a model on a host, then stop it where it was; returns when both is done."""
    from hotseat.cli.fleet import move

    move(Server(url, api_key), model, host)
