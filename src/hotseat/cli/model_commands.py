"""Commands about the models of this machine and their files."""

from __future__ import annotations

from typing import Annotated

import typer

from hotseat.cli import queries
from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, USUAL_CONFIG, AsJson, ConfigFiles, Key, Model, Url

app = typer.Typer(rich_markup_mode=None)


@app.command("list", epilog="Example: hotseat list --json")
def list_models(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """Show every configured model."""
    queries.list_models(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat show qwen")
def show(
    model: Model,
    config: ConfigFiles = None,
    url: Url = HERE,
    api_key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show the files, size, context, memory and command of a model."""
    from hotseat.cli.local_models import Places
    from hotseat.cli.show import show

    show(model, Places(Server(url, api_key), config or []), as_json)


@app.command(epilog="Example: hotseat pull ORG/REPO:Q4_K_M")
def pull(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="ORG/REPO, ORG/REPO:QUANT, ORG/REPO:FILE or https://…")
    ],
    config: ConfigFiles = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Download a model into the `modelsDir` folder. A running hotseat lists it at once."""
    from hotseat.cli.local_models import Places
    from hotseat.cli.pull import pull

    pull(reference, Places(Server(url, api_key), config or []))


@app.command(epilog="Example: hotseat rm qwen")
def rm(
    model: Model,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFiles = None,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Delete a model from the `modelsDir` folder. Files that another model uses stay."""
    from hotseat.cli.local_models import Places
    from hotseat.cli.remove import remove

    remove(model, Places(Server(url, api_key), config or []), yes)


@app.command(epilog="Example: hotseat estimate qwen.gguf -- -c 32768 -ctk q8_0 -ctv q8_0")
def estimate(
    what: Annotated[
        str, typer.Argument(help="A model file, a model folder, or the name or alias of a configured model.")
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            help="More options of the model server, after --, such as the context (-c 8192, or --max-model-len 8192 "
            "for vLLM) and the layers on a GPU (-ngl 99; -ngl 0 for none)."
        ),
    ] = None,
    config: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the memory that a model needs. The model is not started."""
    from hotseat.cli.estimate import estimate_file, estimate_model, is_file, show

    more = tuple(options or ())
    found = estimate_file(what, more) if is_file(what) else estimate_model(what, config or [USUAL_CONFIG], more)
    show(found, as_json)
