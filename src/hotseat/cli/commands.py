"""The commands of the command line. Each one only passes its arguments to the module that does the work."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from hotseat import __version__
from hotseat.cli import fleet_commands, queries, systemd_commands
from hotseat.cli.client import Server
from hotseat.cli.shared_options import (
    HERE,
    USUAL_CONFIG,
    AsJson,
    ConfigDir,
    ConfigFiles,
    Key,
    Lenient,
    Model,
    OneModel,
    Url,
    models_here,
)

app = typer.Typer(
    help="One HTTP address for all the models a machine can run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(Enum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class LogForm(Enum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


def show_version(wished: bool) -> None:
    if wished:
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
        list[Path] | None, typer.Argument(help="Where models are. [default: the caches of other programs, ~/models]")
    ] = None,
    config: Annotated[Path, typer.Option("--config", help="The file to write.")] = USUAL_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Print it and write nothing.")] = False,
) -> None:
    """Look for models and write a configuration that runs them."""
    from hotseat.cli.init import Wishes, init

    init(Wishes(folders or (), config, force), only_print)


@app.command(epilog="Example: hotseat serve --config config.yaml --listen 127.0.0.1:9090")
def serve(
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT, :PORT for every interface, or PORT.")] = None,
    allow_open: Annotated[bool, typer.Option("--allow-open", help="Serve other machines without keys.")] = False,
    lenient: Lenient = False,
    watch_config: Annotated[
        bool, typer.Option("--watch-config", help="Reload when a file of the configuration changes.")
    ] = False,
    tls_cert_file: Annotated[Path | None, typer.Option(help="Serve https with this certificate (PEM).")] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option(help="The certificate's key, where it is a file of its own.")
    ] = None,
    log_format: Annotated[
        LogForm | None, typer.Option(help="Lines for people or JSON; wins over logFormat of the configuration.")
    ] = None,
    fleet: Annotated[
        list[str] | None,
        typer.Option("--fleet", help="Join the fleet at this NATS server; may be given again. Wins over fleet.nats."),
    ] = None,
) -> None:
    """Run the server."""
    from hotseat import app as house
    from hotseat.config.fleet_schema import nats_url
    from hotseat.config.options import ServeOptions
    from hotseat.config.units import parse_listen
    from hotseat.settings import LogFormat

    try:
        address = parse_listen(listen) if listen else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None
    try:
        nats = tuple(map(nats_url, fleet or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fleet") from None
    tls = (tls_cert_file, tls_key_file) if tls_cert_file else None
    form = LogFormat(log_format.value) if log_format else None
    options = ServeOptions(sources(config, config_dir), address, allow_open, lenient, watch_config, tls, form, nats)
    raise typer.Exit(house.serve(options))


@app.command(epilog="Example: hotseat check config.yaml")
def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Files or folders. [default: config.yaml]")] = None,
    form: Annotated[Format, typer.Option("--format", help="How complaints are printed.")] = Format.TEXT,
    as_json: AsJson = False,
    lenient: Lenient = False,
) -> None:
    """Say what is wrong with a configuration, with line and column."""
    from hotseat.cli.check import check

    raise typer.Exit(check(files or [USUAL_CONFIG], Format.JSON.value if as_json else form.value, lenient))


@app.command(epilog="Example: hotseat doctor")
def doctor(
    config: ConfigFiles = None, config_dir: ConfigDir = None, api_key: Key = None, as_json: AsJson = False
) -> None:
    """Look for what keeps hotseat or a model from working, and say what to do."""
    from hotseat.cli.doctor import doctor

    raise typer.Exit(doctor(sources(config, config_dir), api_key, as_json))


@app.command(epilog="Example: hotseat schema > hotseat.schema.json")
def schema() -> None:
    """Print the configuration's JSON Schema, for editors."""
    from hotseat.cli.schema import schema

    raise typer.Exit(schema())


@app.command(epilog="Example: hotseat estimate qwen.gguf --ctx 32768 -- -ctk q8_0 -ctv q8_0")
def estimate(
    what: Annotated[str, typer.Argument(help="A model file, a folder of one, or a configured model's name or alias.")],
    options: Annotated[list[str] | None, typer.Argument(help="Further options of its server, after --.")] = None,
    ctx: Annotated[
        int | None, typer.Option("--ctx", min=1, help="Tokens of context, whatever the command says.")
    ] = None,
    gpu: Annotated[
        bool | None, typer.Option("--gpu/--no-gpu", help="There is a device, or none. [default: as -ngl says]")
    ] = None,
    config: ConfigFiles = None,
    config_dir: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Say how much memory a model will need, line by line, without starting it."""
    from hotseat.cli.estimate import Wishes, estimate_file, estimate_model, is_file, show

    wishes = Wishes(tuple(options or ()), ctx, gpu)
    found = estimate_file(what, wishes) if is_file(what) else estimate_model(what, sources(config, config_dir), wishes)
    show(found, as_json)


@app.command(epilog="Example: hotseat ps")
def ps(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show the models that run, load, stop or are waited for."""
    queries.ps(Server(url, api_key), as_json)


@app.command("list", epilog="Example: hotseat list --json")
def list_models(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show every configured model."""
    queries.list_models(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat load qwen")
def load(model: Model, url: Url = HERE, api_key: Key = None) -> None:
    """Load a model; returns when it is ready."""
    queries.load(Server(url, api_key), model)


@app.command(epilog="Example: hotseat run qwen 'Why is the sky blue?'")
def run(
    model: Model,
    prompt: Annotated[
        str | None, typer.Argument(help="One question. Without it: a conversation, or what comes through a pipe.")
    ] = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Talk to a model; Ctrl-C stops an answer, /bye leaves."""
    from hotseat.cli.chat import run

    run(Server(url, api_key), model, prompt)


@app.command(epilog="Example: hotseat top")
def top(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Watch the models and the line at work; q leaves."""
    from hotseat.cli.top import top

    top(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat activity --model qwen --since 2h")
def activity(
    model: Annotated[
        str | None, typer.Option("--model", help="One model; all of them without it.", autocompletion=models_here)
    ] = None,
    since: Annotated[str, typer.Option("--since", help="How far back, as 90s, 30m or 24h.")] = "24h",
    most: Annotated[int, typer.Option("--most", "-n", min=1, max=100_000, help="The newest so many of them.")] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show which requests have ended: when, whose, how long they took and how many tokens."""
    from hotseat.cli.activity import activity
    from hotseat.config.units import parse_duration

    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    activity(Server(url, api_key), model, seconds, most, as_json)


@app.command(epilog="Example: hotseat stop qwen")
def stop(
    model: OneModel = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all models.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Cut requests in flight.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Stop a model; returns when its process is gone."""
    if (model is None) is not everything:
        raise typer.BadParameter("name a model or say --all")
    queries.stop(Server(url, api_key), model, force)


@app.command(epilog="Example: hotseat logs qwen -f")
def logs(
    model: Annotated[
        str | None, typer.Argument(help="One model; all of them without it.", autocompletion=models_here)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 100,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show what the model servers print."""
    queries.logs(Server(url, api_key), model, lines, follow, as_json)


@app.command(epilog="Example: hotseat why qwen")
def why(model: Model, url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Say why a model is as it is, and why requests for it wait."""
    queries.why(Server(url, api_key), model, as_json)


@app.command(epilog="Example: hotseat devices")
def devices(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show the memory of this machine's devices and, of a hotseat that runs here, which models use it."""
    from hotseat.cli.devices import devices

    devices(Server(url, api_key), as_json)


@app.command("yield", epilog="Example: hotseat yield --device gpu0")
def make_way(
    device: Annotated[str | None, typer.Option(help="Only models on this device. [default: all models]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Let models come back.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Let models make way for something else; requests get 503 until `hotseat yield --resume`."""
    if resume and device:
        raise typer.BadParameter("--resume lets all models come back: leave out --device")
    queries.make_way(Server(url, api_key), device, resume)


@app.command(epilog="Example: hotseat reload")
def reload(url: Url = HERE, api_key: Key = None) -> None:
    """Read the configuration again; unchanged models keep running."""
    queries.reload(Server(url, api_key))


@app.command(epilog="Example: hotseat profile night")
def profile(
    name: Annotated[str | None, typer.Argument(help="The profile to activate; without it they are listed.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Let no profile be active.")] = False,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the profiles or activate one: its names then lead where it says."""
    if name is not None and off:
        raise typer.BadParameter("name a profile or say --off")
    queries.profile(Server(url, api_key), name, off, as_json)


@app.command(epilog="Example: hotseat record monday.jsonl --for 10m")
def record(
    file: Annotated[Path, typer.Argument(help="Where the trace goes.")],
    how_long: Annotated[
        str | None, typer.Option("--for", help="Such as 90s, 10m or 8h. [default: until Ctrl-C]")
    ] = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Write the traffic of the running server as a trace, for `hotseat simulate`."""
    from hotseat.cli.record import record
    from hotseat.config.units import parse_duration

    try:
        seconds = parse_duration(how_long) if how_long else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
    record(Server(url, api_key), file, seconds)


@app.command(epilog="Example: hotseat simulate monday.jsonl --memory 48GiB --svg monday.svg")
def simulate(
    trace: Annotated[Path, typer.Argument(help="A trace, as `hotseat record` writes it.")],
    config: Annotated[
        list[Path] | None, typer.Option("--config", help="Play it to this configuration; may be given again.")
    ] = None,
    patience: Annotated[float | None, typer.Option(min=0, help="Another scheduler.patience.")] = None,
    memory: Annotated[
        list[str] | None, typer.Option(help="Another budget: 48GiB, or gpu0=48GiB; may be given again.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw there which model ran when.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play recorded traffic to the scheduler: as it is, and as it would be with another house."""
    from hotseat.cli.simulate import Changes, simulate

    simulate(trace, Changes(config or [], patience, tuple(memory or ())), svg, as_json)


app.add_typer(fleet_commands.app, name="fleet")
app.add_typer(systemd_commands.app, name="systemd")


def sources(files: list[Path] | None, folder: Path | None) -> list[Path]:
    """Files first, then the folder itself, so that a reload finds files added to it later."""
    if folder is None:
        return files or [USUAL_CONFIG]
    return [*(files or []), folder]
