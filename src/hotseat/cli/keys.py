"""`hotseat keys`: manages the API keys of a running hotseat. Secrets go to standard output, sentences elsewhere."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import in_path, message_of
from hotseat.cli.problems import confirm
from hotseat.cli.restart import check_is_here
from hotseat.cli.tables import table
from hotseat.state.local_proof import written_proof
from hotseat.state.state_file import state_directory

if TYPE_CHECKING:
    from hotseat.cli.client import Server

KEYS = "/hotseat/keys"
EVERYBODY = (
    "This is the first API key: from now on every client of {url} needs a key, also the ones that run now."
    " Their requests for inference finish; their event feeds and WebSockets are cut."
)
HEAD = ("NAME", "ROLE", "MODELS", "SOURCE", "REQUESTS", "IN FLIGHT")


def create(server: Server, name: str, rights: dict[str, Any], yes: bool) -> None:
    if server.ask("GET", KEYS)["keys"]:
        return show_secret(server.send("POST", f"{KEYS}/{in_path(name)}", rights))
    return create_first(server, name, rights, yes)


def create_first(server: Server, name: str, rights: dict[str, Any], yes: bool) -> None:
    check_is_here(server, server.ask("GET", "/hotseat/restart")["pid"])
    if not yes:
        confirm(f"{EVERYBODY.format(url=server.url)} Continue?", "no key was created")
    with written_proof(state_directory(os.environ)) as proof:
        show_secret(server.send("POST", f"{KEYS}/{in_path(name)}", {**rights, "proof": proof}))


def rotate(server: Server, name: str) -> None:
    show_secret(server.send("POST", f"{KEYS}/{in_path(name)}/rotate"))


def show_secret(answer: dict[str, Any]) -> None:
    message, secret = message_of(answer), answer["secret"]
    print(f"{message}; its secret is shown only now:", file=sys.stderr)
    print(secret)


def revoke(server: Server, name: str) -> None:
    print(message_of(server.ask("DELETE", f"{KEYS}/{in_path(name)}")))


def list_keys(server: Server, as_json: bool) -> None:
    keys = server.ask("GET", KEYS)["keys"]
    if not keys:
        server.ask("GET", "/health")["models"]  # another program may have no keys either
    if as_json:
        print(json.dumps(keys, indent=2))
    elif keys:
        print(table(HEAD, [row(key) for key in keys]))
    else:
        print("no API keys: everybody who can reach this server may use and manage every model")


def row(key: dict[str, Any]) -> tuple[str, ...]:
    models = " ".join(key["models"]) or "all"
    return key["name"], key["role"], models, key["source"], str(key["requests"]), str(key["in_flight"])
