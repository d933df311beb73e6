"""The `hotseat fleet` commands."""

from __future__ import annotations

from typing import Annotated

import typer

from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, LINES, AsJson, Follow, Key, Model, OneModel, Url, names_here

app = typer.Typer(
    help="Show and manage the hosts of a fleet.",
    epilog="Example: hotseat fleet status",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def hosts_here(context: typer.Context, incomplete: str) -> list[str]:
    """Host names for shell completion; none if the server is not in a fleet."""
    return names_here(context, incomplete, "/hotseat/fleet", lambda answer: (host["host"] for host in answer["hosts"]))


Host = Annotated[str, typer.Argument(help="Name of a host.", autocompletion=hosts_here)]


@app.command("status", epilog="Example: hotseat fleet status --json")
def show(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show the hosts, their models and their state. The queried host answers with what it knows."""
    from hotseat.cli.fleet import status

    status(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat fleet ps")
def ps(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show the models on all hosts. The queried host answers with what it knows."""
    from hotseat.cli.fleet import ps

    ps(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat fleet requests")
def requests(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show requests in progress on all hosts. Each has the host that serves it and the one that was asked."""
    from hotseat.cli.fleet import requests

    requests(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat fleet logs qwen -f")
def logs(
    model: OneModel = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="<host>", help="Only this host; without a model, its log.", autocompletion=hosts_here
        ),
    ] = None,
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="<number>", min=0, max=10_000, help=LINES)] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the output of a model or the log of a host. The model's server may run on any host."""
    from hotseat.cli.logs import fleet_logs

    if model is None and host is None:
        raise typer.BadParameter("name a model or use --host")
    fleet_logs(Server(url, api_key), model, host, lines, follow, as_json)


@app.command(epilog="Example: hotseat fleet why qwen")
def why(model: Model, url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Explain the state of a model on each host. This includes why a host cannot load it."""
    from hotseat.cli.fleet import why

    why(Server(url, api_key), model, as_json)


@app.command(epilog="Example: hotseat fleet cordon gpu2")
def cordon(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Stop placing new models on a host; its models keep serving."""
    from hotseat.cli.fleet import give

    give(Server(url, api_key), host, "cordon")


@app.command(epilog="Example: hotseat fleet uncordon gpu2")
def uncordon(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Allow new models on a host again."""
    from hotseat.cli.fleet import take_back

    take_back(Server(url, api_key), host, "cordon")


@app.command(epilog="Example: hotseat fleet drain gpu2")
def drain(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Empty a host, for example before a reboot. Models in use are loaded on other hosts first."""
    from hotseat.cli.fleet import give

    give(Server(url, api_key), host, "drain")


@app.command(epilog="Example: hotseat fleet undrain gpu2")
def undrain(host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """End the drain of a host."""
    from hotseat.cli.fleet import take_back

    take_back(Server(url, api_key), host, "drain")


@app.command(epilog="Example: hotseat fleet move qwen gpu2")
def move(model: Model, host: Host, url: Url = HERE, api_key: Key = None) -> None:
    """Move a model to a host and wait for it. The model is loaded there first, then stopped on its previous host."""
    from hotseat.cli.fleet import move

    move(Server(url, api_key), model, host)


@app.command(epilog="Example: hotseat fleet restart gpu2 gpu3")
def restart(
    hosts: Annotated[
        list[str] | None, typer.Argument(help="Names of hosts. [default: all hosts]", autocompletion=hosts_here)
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="After a failure go on with the next host, and exit with 1 at the end.")
    ] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Restart hosts one after the other; models keep running.

    Each process is replaced as by `hotseat restart`. The next host is restarted when the one before is back with its
    models. The queried host is the last.
    """
    from hotseat.cli.restart import restart_hosts

    restart_hosts(Server(url, api_key), hosts or (), keep_going=keep_going)
