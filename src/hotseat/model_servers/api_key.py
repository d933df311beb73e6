"""The key that a model server demands of whoever asks it, from its own command line and environment."""

from __future__ import annotations

import secrets
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.estimates.command import Engine, Server, server_in
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes

KEYS, KEY_FILE = "--api-key", "--api-key-file"
KEYS_VARIABLES = {Engine.LLAMA: "LLAMA_API_KEY", Engine.VLLM: "VLLM_API_KEY"}
KEY_FILE_VARIABLE = "LLAMA_ARG_API_KEY_FILE"
LONGEST_FILE: Bytes = 1 << 16


def key_of(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The first key of a server with this command line and environment; empty if it demands none."""
    server = _server(argv, env)
    given = {flag.replace("_", "-"): value for flag, value in pairwise(server.options) if flag.startswith("--api")}
    keys = given.get(KEYS) or server.env.get(KEYS_VARIABLES[server.engine], "")
    file = given.get(KEY_FILE) or server.env.get(KEY_FILE_VARIABLE, "")
    return _first(keys.split(",")) or (_first(_lines(server.outside(file))) if file else "")


def with_key(argv: tuple[str, ...], env: Mapping[str, str]) -> dict[str, str]:
    """The variable with a random key for a server that reads keys there and has none; empty for all others.

    Not on its command line, which all users of the machine can read.
    """
    key = secrets.token_urlsafe(32)
    try:
        server = server_in(argv, {**dict.fromkeys(KEYS_VARIABLES.values(), key), **env})
    except CannotEstimate:
        return {}
    name = KEYS_VARIABLES[server.engine]
    if server.env.get(name) != key or KEY_FILE_VARIABLE in server.env:
        return {}  # it has another key, or is in a container that does not get the variable
    has_option = any(option.replace("_", "-").startswith(KEYS) for option in server.options)
    return {} if has_option else {name: key}


def authorization(key: str) -> bytes:
    """The header line that sends this key; none without a key."""
    return f"Authorization: Bearer {key}\r\n".encode() if key else b""


def _server(argv: tuple[str, ...], env: Mapping[str, str]) -> Server:
    """With its options, its environment and its files as it sees them: a container has its own of each."""
    try:
        return server_in(argv, env)
    except CannotEstimate:
        return Server(Engine.LLAMA, argv, env)


def _first(keys: list[str]) -> str:
    """The first that can be sent: a control character would end the header."""
    return next((key for each in keys if (key := each.strip()) and key.isprintable()), "")


def _lines(path: str) -> list[str]:
    file = Path(path)
    if not file.is_file():  # a pipe could block everything
        return []
    try:
        with file.open("rb") as keys:
            text = keys.read(LONGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if not line.startswith("#")]
