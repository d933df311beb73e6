"""Commands that show what a running hotseat does."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from hotseat.cli import queries
from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, LINES, AsJson, Follow, Key, Model, Url, models_here

app = typer.Typer(rich_markup_mode=None)


class UsageColumn(Enum):
    DAY = "day"
    MODEL = "model"
    KEY = "key"


@app.command(epilog="Example: hotseat ps")
def ps(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show models that are running, loading, stopping or requested."""
    queries.ps(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat top")
def top(url: Url = HERE, api_key: Key = None) -> None:
    """Watch the models and the queue live; q quits."""
    from hotseat.cli.top import top

    top(Server(url, api_key))


@app.command(epilog="Example: hotseat why qwen")
def why(model: Model, url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Explain the state of a model and why requests wait for it."""
    queries.why(Server(url, api_key), model, as_json)


@app.command(epilog="Example: hotseat logs qwen -f")
def logs(
    model: Annotated[
        str | None,
        typer.Argument(help="One model. [default: all models and hotseat itself]", autocompletion=models_here),
    ] = None,
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="<number>", min=0, help=LINES)] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the output of model servers and hotseat's own log. Lines are in the order of time."""
    from hotseat.cli.logs import logs

    logs(Server(url, api_key), model, lines, follow, as_json)


@app.command(epilog="Example: hotseat activity --model qwen --since 2h")
def activity(
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="<model>", help="One model. [default: all models]", autocompletion=models_here),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="<duration>", help="How far back, such as 90s, 30m or 24h.")
    ] = "24h",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="<number>", min=1, max=100_000, help="Maximum number of requests, newest first."
        ),
    ] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show finished requests with client, duration and tokens."""
    from hotseat.cli.past_requests import activity
    from hotseat.config.units import parse_duration

    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    activity(Server(url, api_key), model, seconds, limit, as_json)


@app.command(epilog="Example: hotseat usage --days 7 --by day --by key")
def usage(
    days: Annotated[
        int, typer.Option("--days", metavar="<number>", min=1, max=400, help="How many days, today included; UTC.")
    ] = 30,
    by: Annotated[
        list[UsageColumn] | None,
        typer.Option("--by", metavar="<day|model|key>", help="What each row is for; repeatable. [default: model, key]"),
    ] = None,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show requests and tokens by day, model or API key."""
    from hotseat.cli.past_requests import usage

    columns = [each.value for each in by or (UsageColumn.MODEL, UsageColumn.KEY)]
    usage(Server(url, api_key), days, columns, "csv" if as_csv else "json" if as_json else "text")


@app.command(epilog="Example: hotseat devices")
def devices(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show memory and load of this machine's devices. If hotseat is running, also which models use them."""
    from hotseat.cli.devices import devices

    devices(Server(url, api_key), as_json)
