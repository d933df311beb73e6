"""Commands that record traffic and replay it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, AsJson, Key, Url

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: hotseat record monday.jsonl --for 10m")
def record(
    file: Annotated[Path, typer.Argument(help="The trace file to write.")],
    how_long: Annotated[
        str | None,
        typer.Option("--for", metavar="<duration>", help="Duration, such as 90s, 10m or 8h. [default: until Ctrl-C]"),
    ] = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Record traffic for `hotseat simulate`. Needs a running server."""
    from hotseat.cli.record import record
    from hotseat.config.units import parse_duration

    try:
        seconds = parse_duration(how_long) if how_long else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
    record(Server(url, api_key), file, seconds)


@app.command(epilog="Example: hotseat simulate monday.jsonl --memory 48GiB --svg monday.svg")
def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace written by `hotseat record`.")],
    config: Annotated[
        list[Path] | None, typer.Option("--config", metavar="<path>", help="Simulate this configuration; repeatable.")
    ] = None,
    memory: Annotated[
        list[str] | None,
        typer.Option(metavar="<size>", help="Use this memory budget instead: 48GiB, or gpu0=48GiB; repeatable."),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="<sizes>", help="Compare with a machine with these GPUs: 24GiB,24GiB; repeatable."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write a timeline of the models as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded traffic through the scheduler. Options change the hardware or the settings."""
    from hotseat.cli.simulate import Changes, simulate

    simulate(trace, Changes(config or [], tuple(memory or ()), tuple(gpu or ())), svg, as_json)
