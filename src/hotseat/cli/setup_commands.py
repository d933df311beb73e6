"""Commands that write, check and serve a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotseat.cli.shared_options import USUAL_CONFIG, AsJson, ConfigFiles, Lenient
from hotseat.daemon.garbage_collection import collect_nothing_during_start

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: hotseat init ~/models")
def init(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with models. [default: ~/models and the caches of other programs]"),
    ] = None,
    config: Annotated[Path, typer.Option("--config", help="The file to write.")] = USUAL_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Print the configuration instead of writing it.")] = False,
) -> None:
    """Look for models and write a configuration that runs them."""
    from hotseat.cli.init import InitOptions, init

    init(InitOptions(folders or (), config, force), only_print)


@app.command(epilog="Example: hotseat serve --config config.yaml --listen 127.0.0.1:9090")
def serve(
    config: ConfigFiles = None,
    config_dir: Annotated[Path | None, typer.Option(hidden=True)] = None,  # llama-swap's
    listen: Annotated[
        str | None, typer.Option(metavar="<address>", help="HOST:PORT, :PORT for every interface, or PORT.")
    ] = None,
    allow_open: Annotated[bool, typer.Option("--allow-open", help="Serve other machines without API keys.")] = False,
    lenient: Lenient = False,
    watch_config: Annotated[
        bool, typer.Option("--watch-config", help="Reload when a configuration file changes.")
    ] = False,
    tls_cert_file: Annotated[Path | None, typer.Option(help="Serve HTTPS with this certificate (PEM).")] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option(help="Private key of the certificate, if it is in a separate file.")
    ] = None,
) -> None:
    """Run the server."""
    collect_nothing_during_start()
    from hotseat import app as application
    from hotseat.config.units import parse_listen
    from hotseat.settings import TlsFiles
    from hotseat.startup.preparation import ServeOptions

    try:
        address = parse_listen(listen) if listen else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None
    tls = TlsFiles(tls_cert_file, tls_key_file) if tls_cert_file else None
    # The folder itself, last, so that a reload finds files added to it later.
    paths = [*(config or []), *([config_dir] if config_dir else [])] or [USUAL_CONFIG]
    options = ServeOptions(paths, address, allow_open, lenient, watch_config, tls)
    raise typer.Exit(application.serve(options))


@app.command(epilog="Example: hotseat check config.yaml")
def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Files or folders. [default: config.yaml]")] = None,
    as_json: AsJson = False,
    lenient: Lenient = False,
) -> None:
    """Validate a configuration. Each problem is reported with its line and column."""
    from hotseat.cli.check import check

    raise typer.Exit(check(files or [USUAL_CONFIG], as_json, lenient))


@app.command(epilog="Example: hotseat schema > hotseat.schema.json")
def schema() -> None:
    """Print the configuration's JSON Schema, for editors."""
    import json

    from hotseat.config.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
