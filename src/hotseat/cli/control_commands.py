"""Commands that change what a running hotseat does, and `run`."""

from __future__ import annotations

from typing import Annotated

import typer

from hotseat.cli import queries
from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, AsJson, Key, Model, OneModel, Url, models_here

app = typer.Typer(rich_markup_mode=None)


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
        from hotseat.cli.local_models import Places
        from hotseat.cli.pull import model_for

        model = model_for(model, Places(server), yes)
    run(server, model, prompt)


@app.command(epilog="Example: hotseat load qwen")
def load(model: Model, url: Url = HERE, api_key: Key = None) -> None:
    """Load a model and wait until it is ready."""
    queries.load(Server(url, api_key), model)


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


@app.command(epilog="Example: hotseat reload")
def reload(url: Url = HERE, api_key: Key = None) -> None:
    """Reload the configuration; unchanged models keep running."""
    queries.reload(Server(url, api_key))


@app.command(epilog="Example: hotseat restart")
def restart(url: Url = HERE, api_key: Key = None) -> None:
    """Replace the running process, for an upgrade. Models keep running."""
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


@app.command("yield", epilog="Example: hotseat yield --device gpu0")
def yield_memory(
    device: Annotated[
        str | None, typer.Option(metavar="<device>", help="Only models on this device. [default: all models]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="End the yield: models may load again.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Unload models to free memory for other programs. Requests get 503 until `hotseat yield --resume`."""
    if resume and device:
        raise typer.BadParameter("--resume applies to all models: omit --device")
    queries.yield_memory(Server(url, api_key), device, resume)
