"""The key that a model server demands of whoever asks it, from its own command line and environment."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.estimates.command import server_in
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.identifiers import Bytes

KEYS, KEY_FILE = "--api-key", "--api-key-file"
KEYS_VARIABLE, KEY_FILE_VARIABLE = "LLAMA_API_KEY", "LLAMA_ARG_API_KEY_FILE"
LONGEST_FILE: Bytes = 1 << 16


def key_of(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The first key of a server with this command line and environment; empty if it demands none."""
    options, variables, outside = _seen_by_server(argv, env)
    given = {flag.replace("_", "-"): value for flag, value in pairwise(options) if flag.startswith("--api")}
    keys = given.get(KEYS) or variables.get(KEYS_VARIABLE, "")
    file = given.get(KEY_FILE) or variables.get(KEY_FILE_VARIABLE, "")
    return _first(keys.split(",")) or (_first(_lines(outside(file))) if file else "")


def authorization(key: str) -> bytes:
    """The header line that sends this key; none without a key."""
    return f"Authorization: Bearer {key}\r\n".encode() if key else b""


def _seen_by_server(
    argv: tuple[str, ...], env: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str], Callable[[str], str]]:
    """Its options, its environment, and where its files are on this machine: a container has its own of each."""
    try:
        server = server_in(argv, env)
    except CannotEstimate:
        return argv, env, str
    return server.options, server.env, server.outside


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
