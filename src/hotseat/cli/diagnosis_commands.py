"""Commands that find problems and write reports about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, USUAL_CONFIG, AsJson, ConfigFiles, Key, Url

app = typer.Typer(rich_markup_mode=None)

PATIENCE_S = 10.0
"""For each answer to `hotseat debug-bundle`, since the server may be what is broken."""


@app.command(epilog="Example: hotseat doctor")
def doctor(
    config: ConfigFiles = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="<url>",
            envvar="HOTSEAT_URL",
            help="Address of the running hotseat. [default: the one in the configuration]",
        ),
    ] = None,
    api_key: Key = None,
    as_json: AsJson = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Load models and report memory and times, in at most five minutes. A running server is used only if "
            "it has no models loaded; what the report loads is unloaded at the end.",
        ),
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="<model>", help="A model for --report; repeatable. [default: the two smallest]"
        ),
    ] = None,
) -> None:
    """Find problems and suggest fixes. Checks the configuration and this machine."""
    if report:
        from hotseat.cli.reports.machine_report import report as report_machine

        raise typer.Exit(report_machine(config or [USUAL_CONFIG], url, api_key, model or (), as_json))
    if model:
        raise typer.BadParameter("--model needs --report")
    from hotseat.cli.doctor import doctor

    raise typer.Exit(doctor(config or [USUAL_CONFIG], url, api_key, as_json))


@app.command("debug-bundle", epilog="Example: hotseat debug-bundle -o bundle.tar.gz")
def debug_bundle(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. [default: hotseat-debug-TIME.tar.gz]")
    ] = None,
    config: ConfigFiles = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Collect logs, configuration and state for a bug report. Secrets are removed; the server need not run."""
    import time

    from hotseat.cli.reports.bundle import debug_bundle

    file = output or Path(f"hotseat-debug-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    debug_bundle(Server(url, api_key, PATIENCE_S), config or [], file)
