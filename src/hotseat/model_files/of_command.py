"""The model files that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.files import parts_of
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ROLES = ("model", "projector", "draft")


def files_of(argv: tuple[str, ...], env: Mapping[str, str], working_dir: Path) -> dict[str, list[Path]]:
    """The files of a llama-server by what they are for, with all parts; empty for other servers."""
    try:
        server = server_in(argv, env)
        if server.engine is not Engine.LLAMA:
            return {}
        flags = LlamaFlags.parse(server.options, server.env)
        paths = {role: flags.text(role) for role in ROLES}
        return {role: parts_of(working_dir / server.outside(path)) for role, path in paths.items() if path}
    except CannotEstimate:
        return {}
