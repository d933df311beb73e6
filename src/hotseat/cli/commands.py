"""The commands of the command line. Each one only passes its arguments to the module that does the work."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from hotseat import __version__
from hotseat.cli import fleet_commands, keys_commands, queries, systemd_commands
from hotseat.cli.client import Server
from hotseat.cli.command_list import CommandList
from hotseat.cli.shared_options import (
    HERE,
    LINES,
    USUAL_CONFIG,
    AsJson,
    ConfigDir,
    ConfigFiles,
    Follow,
    Key,
    Lenient,
    Model,
    OneModel,
    Url,
    models_here,
)

app = typer.Typer(
    cls=CommandList,
    help="One HTTP address for all the models a machine can run.",
    epilog="Start with `hotseat init` and `hotseat serve`; then, in another terminal, `hotseat run MODEL`.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PATIENCE_S = 10.0
"""For each answer to `hotseat debug-bundle`, since the server may be what is broken."""


class Format(Enum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class LogForm(Enum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


class Switch(Enum):
    ON = "on"
    OFF = "off"


class UsageColumn(Enum):
    DAY = "day"
    MODEL = "model"
    KEY = "key"


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
    config_dir: ConfigDir = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT, :PORT for every interface, or PORT.")] = None,
    allow_open: Annotated[bool, typer.Option("--allow-open", help="Serve other machines without API keys.")] = False,
    lenient: Lenient = False,
    watch_config: Annotated[
        bool, typer.Option("--watch-config", help="Reload when a configuration file changes.")
    ] = False,
    tls_cert_file: Annotated[Path | None, typer.Option(help="Serve HTTPS with this certificate (PEM).")] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option(help="Private key of the certificate, if it is in a separate file.")
    ] = None,
    log_format: Annotated[LogForm | None, typer.Option(help="Log as text or JSON; overrides logFormat.")] = None,
    fleet: Annotated[
        list[str] | None,
        typer.Option("--fleet", help="Join the fleet at this NATS server; repeatable. Overrides fleet.nats."),
    ] = None,
) -> None:
    """Run the server."""
    from hotseat import app as application
    from hotseat.config.fleet_schema import nats_url
    from hotseat.config.options import ServeOptions
    from hotseat.config.units import parse_listen
    from hotseat.settings import LogFormat, TlsFiles

    try:
        address = parse_listen(listen) if listen else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None
    try:
        nats = tuple(map(nats_url, fleet or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fleet") from None
    tls = TlsFiles(tls_cert_file, tls_key_file) if tls_cert_file else None
    form = LogFormat(log_format.value) if log_format else None
    options = ServeOptions(sources(config, config_dir), address, allow_open, lenient, watch_config, tls, form, nats)
    raise typer.Exit(application.serve(options))


@app.command(epilog="Example: hotseat check config.yaml")
def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Files or folders. [default: config.yaml]")] = None,
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    as_json: AsJson = False,
    lenient: Lenient = False,
) -> None:
    """Validate a configuration. Each problem is reported with its line and column."""
    from hotseat.cli.check import check

    raise typer.Exit(check(files or [USUAL_CONFIG], Format.JSON.value if as_json else form.value, lenient))


@app.command(epilog="Example: hotseat doctor")
def doctor(
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    api_key: Key = None,
    as_json: AsJson = False,
    report: Annotated[
        bool, typer.Option("--report", help="Load models and report memory and times, in at most five minutes.")
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model for --report; repeatable. [default: the two smallest]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the report to this file, as Markdown.")
    ] = None,
) -> None:
    """Find problems and suggest fixes. Checks the configuration and this machine."""
    if report:
        from hotseat.cli.reports.machine_report import report as report_machine

        raise typer.Exit(report_machine(sources(config, config_dir), api_key, model or (), output, as_json))
    if model or output:
        raise typer.BadParameter("--model and --output need --report")
    from hotseat.cli.doctor import doctor

    raise typer.Exit(doctor(sources(config, config_dir), api_key, as_json))


@app.command("debug-bundle", epilog="Example: hotseat debug-bundle -o bundle.tar.gz")
def debug_bundle(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. [default: hotseat-debug-TIME.tar.gz]")
    ] = None,
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Collect logs, configuration and state for a bug report. Secrets are removed; the server need not run."""
    import time

    from hotseat.cli.reports.bundle import debug_bundle

    file = output or Path(f"hotseat-debug-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    debug_bundle(Server(url, api_key, PATIENCE_S), named_sources(config, config_dir), file)


@app.command(epilog="Example: hotseat schema > hotseat.schema.json")
def schema() -> None:
    """Print the configuration's JSON Schema, for editors."""
    from hotseat.cli.schema import schema

    raise typer.Exit(schema())


@app.command(epilog="Example: hotseat estimate qwen.gguf --ctx 32768 -- -ctk q8_0 -ctv q8_0")
def estimate(
    what: Annotated[
        str, typer.Argument(help="A model file, a model folder, or the name or alias of a configured model.")
    ],
    options: Annotated[
        list[str] | None, typer.Argument(help="Additional options for the model server, after --.")
    ] = None,
    ctx: Annotated[
        int | None, typer.Option("--ctx", min=1, help="Context length in tokens; overrides the command.")
    ] = None,
    gpu: Annotated[
        bool | None, typer.Option("--gpu/--no-gpu", help="With or without a GPU. [default: as -ngl says]")
    ] = None,
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the memory that a model needs. The model is not started."""
    from hotseat.cli.estimate import EstimateOptions, estimate_file, estimate_model, is_file, show

    chosen = EstimateOptions(tuple(options or ()), ctx, gpu)
    found = estimate_file(what, chosen) if is_file(what) else estimate_model(what, sources(config, config_dir), chosen)
    show(found, as_json)


@app.command(epilog="Example: hotseat pull ORG/REPO:Q4_K_M")
def pull(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="ORG/REPO, ORG/REPO:QUANT, ORG/REPO:FILE or https://…")
    ],
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Download a model into the folder of modelsDir. A running hotseat lists it at once."""
    from hotseat.cli.known_models import Places
    from hotseat.cli.pull import pull

    pull(reference, Places(Server(url, api_key), named_sources(config, config_dir)))


@app.command(epilog="Example: hotseat show qwen")
def show(
    model: Model,
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the files, size, context, memory and command of a model."""
    from hotseat.cli.known_models import Places
    from hotseat.cli.show import show

    show(model, Places(Server(url, api_key), named_sources(config, config_dir)), as_json)


@app.command(epilog="Example: hotseat rm qwen")
def rm(
    model: Model,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Delete a model of the folder of modelsDir. Files that another model uses stay."""
    from hotseat.cli.known_models import Places
    from hotseat.cli.remove import remove

    remove(model, Places(Server(url, api_key), named_sources(config, config_dir)), yes)


@app.command(epilog="Example: hotseat ps")
def ps(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show models that are running, loading, stopping or requested."""
    queries.ps(Server(url, api_key), as_json)


@app.command("list", epilog="Example: hotseat list --json")
def list_models(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show every configured model."""
    queries.list_models(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat load qwen")
def load(model: Model, url: Url = HERE, api_key: Key = None) -> None:
    """Load a model and wait until it is ready."""
    queries.load(Server(url, api_key), model)


@app.command(epilog="Example: hotseat run qwen 'Why is the sky blue?'")
def run(
    model: Annotated[
        str,
        typer.Argument(
            help="A model's name or alias, or a reference as for `hotseat pull`.", autocompletion=models_here
        ),
    ],
    prompt: Annotated[
        str | None, typer.Argument(help="One prompt. Without it: read from a pipe, or start a conversation.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Download without asking.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Chat with a model; Ctrl-C stops a response, /bye quits. A model that is not there yet is downloaded."""
    from hotseat.cli.chat import run

    server = Server(url, api_key)
    if "/" in model and not queries.is_configured(server, model):
        from hotseat.cli.known_models import Places
        from hotseat.cli.run_reference import model_for

        model = model_for(model, Places(server), yes)
    run(server, model, prompt)


@app.command(epilog="Example: hotseat top")
def top(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Watch the models and the queue live; q quits."""
    from hotseat.cli.top import top

    top(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat activity --model qwen --since 2h")
def activity(
    model: Annotated[
        str | None, typer.Option("--model", help="One model. [default: all models]", autocompletion=models_here)
    ] = None,
    since: Annotated[str, typer.Option("--since", help="How far back, such as 90s, 30m or 24h.")] = "24h",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100_000, help="Maximum number of requests, newest first.")
    ] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show finished requests with client, duration and tokens."""
    from hotseat.cli.activity import activity
    from hotseat.config.units import parse_duration

    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    activity(Server(url, api_key), model, seconds, limit, as_json)


@app.command(epilog="Example: hotseat usage --days 7 --by day --by key")
def usage(
    days: Annotated[int, typer.Option("--days", min=1, max=400, help="How many days, today included; UTC.")] = 30,
    by: Annotated[
        list[UsageColumn] | None, typer.Option("--by", help="What each row is for; repeatable. [default: model, key]")
    ] = None,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show requests and tokens by day, model or API key."""
    from hotseat.cli.usage import usage

    columns = [each.value for each in by or (UsageColumn.MODEL, UsageColumn.KEY)]
    usage(Server(url, api_key), days, columns, "csv" if as_csv else "json" if as_json else "text")


@app.command(epilog="Example: hotseat stop qwen")
def stop(
    model: OneModel = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all models.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Abort requests in flight.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Stop a model and wait until its process has exited."""
    if (model is None) is not everything:
        raise typer.BadParameter("name a model or use --all")
    queries.stop(Server(url, api_key), model, force)


@app.command(epilog="Example: hotseat logs qwen -f")
def logs(
    model: Annotated[
        str | None,
        typer.Argument(help="One model. [default: all models and hotseat itself]", autocompletion=models_here),
    ] = None,
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help=LINES)] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the output of model servers and hotseat's own log. Lines are in the order of time."""
    from hotseat.cli.logs import logs

    logs(Server(url, api_key), model, lines, follow, as_json)


@app.command(epilog="Example: hotseat why qwen")
def why(model: Model, url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Explain the state of a model and why requests wait for it."""
    queries.why(Server(url, api_key), model, as_json)


@app.command(epilog="Example: hotseat devices")
def devices(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show memory and load of this machine's devices. If hotseat is running, also which models use them."""
    from hotseat.cli.devices import devices

    devices(Server(url, api_key), as_json)


@app.command("yield", epilog="Example: hotseat yield --device gpu0")
def yield_memory(
    device: Annotated[str | None, typer.Option(help="Only models on this device. [default: all models]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="End the yield: models may load again.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Unload models to free memory for other programs. Requests get 503 until `hotseat yield --resume`."""
    if resume and device:
        raise typer.BadParameter("--resume applies to all models: omit --device")
    queries.yield_memory(Server(url, api_key), device, resume)


@app.command(epilog="Example: hotseat reload")
def reload(url: Url = HERE, api_key: Key = None) -> None:
    """Reload the configuration; unchanged models keep running."""
    queries.reload(Server(url, api_key))


@app.command(epilog="Example: hotseat restart")
def restart(url: Url = HERE, api_key: Key = None) -> None:
    """Replace the running process, for an upgrade; models keep running."""
    from hotseat.cli.restart import restart

    restart(Server(url, api_key))


@app.command(epilog="Example: hotseat profile night")
def profile(
    name: Annotated[
        str | None, typer.Argument(help="The profile to activate. Without it, profiles are listed.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Deactivate the active profile.")] = False,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the profiles, or activate one. Its names then map to the models it defines."""
    if name is not None and off:
        raise typer.BadParameter("name a profile or use --off")
    queries.profile(Server(url, api_key), name, off, as_json)


@app.command(epilog="Example: hotseat record monday.jsonl --for 10m")
def record(
    file: Annotated[Path, typer.Argument(help="The trace file to write.")],
    how_long: Annotated[
        str | None, typer.Option("--for", help="Duration, such as 90s, 10m or 8h. [default: until Ctrl-C]")
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
        list[Path] | None, typer.Option("--config", help="Simulate this configuration; repeatable.")
    ] = None,
    patience: Annotated[float | None, typer.Option(min=0, help="Use this scheduler.patience instead.")] = None,
    memory: Annotated[
        list[str] | None, typer.Option(help="Use this memory budget instead: 48GiB, or gpu0=48GiB; repeatable.")
    ] = None,
    gpu: Annotated[
        list[str] | None, typer.Option(help="Compare with a machine with these GPUs: 24GiB,24GiB; repeatable.")
    ] = None,
    conversations: Annotated[
        Switch | None, typer.Option(help="Keep conversations across swaps, or not, instead of as configured.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write a timeline of the models as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded traffic through the scheduler. Options change the hardware or the settings."""
    from hotseat.cli.simulate import Changes, simulate

    kept = None if conversations is None else conversations is Switch.ON
    simulate(trace, Changes(config or [], patience, tuple(memory or ()), tuple(gpu or ()), kept), svg, as_json)


app.add_typer(fleet_commands.app, name="fleet")
app.add_typer(keys_commands.app, name="keys")
app.add_typer(systemd_commands.app, name="systemd")


def sources(files: list[Path] | None, folder: Path | None) -> list[Path]:
    """Files first, then the folder itself, so that a reload finds files added to it later."""
    return named_sources(files, folder) or [USUAL_CONFIG]


def named_sources(files: list[Path] | None, folder: Path | None) -> list[Path]:
    """Only what the command line names."""
    return [*(files or []), *([folder] if folder else [])]
