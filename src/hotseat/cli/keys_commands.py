"""The `hotseat keys` commands."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from hotseat.cli.client import Server
from hotseat.cli.shared_options import HERE, AsJson, Key, Url, models_here, names_here

app = typer.Typer(
    help="Create, list, rotate and revoke API keys.",
    epilog="Example: hotseat keys create ann",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class RoleName(Enum):
    INFERENCE = "inference"
    OPERATE = "operate"
    ADMIN = "admin"


class Priority(Enum):
    INTERACTIVE = "interactive"
    BATCH = "batch"


def keys_here(context: typer.Context, incomplete: str) -> list[str]:
    """Names for shell completion: the keys that commands may change."""
    return names_here(
        context,
        incomplete,
        "/hotseat/keys",
        lambda answer: (key["name"] for key in answer["keys"] if key["source"] == "created"),
    )


Name = Annotated[str, typer.Argument(help="Name of a key.", autocompletion=keys_here)]


@app.command(epilog="Example: hotseat keys create website --model qwen --requests 60/min --tokens 2M/day")
def create(
    name: Annotated[str, typer.Argument(help="Name of its holder, for logs and metrics.")],
    role: Annotated[RoleName, typer.Option(help="What the key may do.")] = RoleName.INFERENCE,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="<model>",
            help="A model it may use; repeatable. [default: all]",
            autocompletion=models_here,
        ),
    ] = None,
    requests: Annotated[
        str | None, typer.Option(metavar="<budget>", help="Its budget of requests, such as 100/min.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="<budget>", help="Its budget of tokens, such as 2M/day.")
    ] = None,
    concurrency_limit: Annotated[
        int | None, typer.Option(metavar="<number>", min=1, help="Its requests at a time.")
    ] = None,
    priority: Annotated[Priority, typer.Option(help="Requests of batch keys wait for others.")] = Priority.INTERACTIVE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Require keys from now on without a question.")] = False,
    url: Url = HERE,
    api_key: Key = None,
) -> None:
    """Create an API key and print its secret, which is shown only now.

    The first key needs no other one: create it with the role admin, as the user who runs hotseat. From then on every
    client needs a key.
    """
    from hotseat.cli.keys import create

    rights = {
        "role": role.value,
        "models": model or [],
        "requests": requests,
        "tokens": tokens,
        "concurrency_limit": concurrency_limit,
        "priority": priority.value,
    }
    create(Server(url, api_key), name, rights, yes)


@app.command("list", epilog="Example: hotseat keys list --json")
def list_keys(url: Url = HERE, api_key: Key = None, as_json: AsJson = False) -> None:
    """List the API keys with their rights and their usage."""
    from hotseat.cli.keys import list_keys

    list_keys(Server(url, api_key), as_json)


@app.command(epilog="Example: hotseat keys rotate website")
def rotate(name: Name, url: Url = HERE, api_key: Key = None) -> None:
    """Give a key a new secret and print it. The old one is invalid at once; requests in progress continue."""
    from hotseat.cli.keys import rotate

    rotate(Server(url, api_key), name)


@app.command(epilog="Example: hotseat keys revoke website")
def revoke(name: Name, url: Url = HERE, api_key: Key = None) -> None:
    """Revoke a key and end its requests in progress."""
    from hotseat.cli.keys import revoke

    revoke(Server(url, api_key), name)
