"""What a saved conversation depends on. If any of it has changed, the conversation is computed anew.

The command, its variables, and the size and time of every file that they name; context and build of the server are
added when it runs. The port and the chosen cards are not part of it: both are still placeholders here.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from hotseat.estimates.command import server_in
from hotseat.estimates.report import CannotEstimate
from hotseat.model_servers.api_key import KEYS_VARIABLES
from hotseat.model_servers.load_progress import files_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.model_servers.conversations.slots_api import Build

LENGTH = 16
OWN_VARIABLES = "LLAMA_"
"""Also if the server inherits them from hotseat."""


def basis_of(recipe: LaunchRecipe, env: Mapping[str, str]) -> str:
    """Of a server before it starts: files that are replaced while it runs are not what it has loaded."""
    own = {name for name in env if name.startswith(OWN_VARIABLES)} - {*KEYS_VARIABLES.values()}
    variables = sorted((name, env[name]) for name in own)
    facts = [fact for file in sorted(_files(recipe, env)) if (fact := _fact(file))]
    return _digest((recipe.argv, recipe.env, variables, facts))


def fingerprint(basis: str, build: Build) -> str:
    """The number of slots does not matter: a conversation fits into any of them."""
    return _digest((basis, build.context, build.version))


def _files(recipe: LaunchRecipe, env: Mapping[str, str]) -> set[Path]:
    """Files that the command names, and those that the server in it gets, also behind a shell or in a container."""
    values = [value for _, value in recipe.env]
    named = files_named(recipe.argv) | files_named(("", recipe.argv[0], *values))
    try:
        server = server_in(recipe.argv, env)
    except CannotEstimate:
        return named
    own = [value for name, value in server.env.items() if name.startswith(OWN_VARIABLES)]
    return named | files_named(("", *map(server.outside, (*server.options, *own))))


def _fact(file: Path) -> tuple[str, int, int, int] | None:
    try:
        facts = os.stat(file)
    except (OSError, ValueError):
        return None
    return str(file), facts.st_ino, facts.st_size, facts.st_mtime_ns


def _digest(what: object) -> str:
    return hashlib.sha256(repr(what).encode("utf-8", "surrogateescape")).hexdigest()[:LENGTH]
