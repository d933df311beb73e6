"""llama-server names its model in every response: by the name that clients use, unless the command sets another."""

from __future__ import annotations

from typing import TypeAlias

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.report import CannotEstimate

ALIAS = "LLAMA_ARG_ALIAS"
Env: TypeAlias = tuple[tuple[str, str], ...]


def with_alias(name: str, argv: tuple[str, ...], env: Env) -> Env:
    """The environment of a model's server; without the alias, responses would name the path of the model's file."""
    try:
        server = server_in(argv, dict(env))
    except CannotEstimate:
        return env
    named = ALIAS in server.env or any(option.partition("=")[0] in ("-a", "--alias") for option in server.options)
    return env if server.engine is not Engine.LLAMA or named else (*env, (ALIAS, name))
