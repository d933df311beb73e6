"""The model files that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.container_run import ENGINES, mount_of
from hotseat.estimates.files import parts_of
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotseat.estimates.command import Server

LLAMA = Engine.LLAMA.value
ROLES = ("model", "projector", "draft")
FETCHED = ("fetched", "fetched_draft")
WRAPPERS = ("env", "nice", "ionice", "numactl", "taskset", "chrt", "stdbuf", "setsid", "nohup", "timeout")
"""Programs that run another one with the same files."""


def files_of(argv: tuple[str, ...], env: Mapping[str, str], working_dir: Path) -> dict[str, list[Path]]:
    """The files of a llama-server by what they are for, with all parts; empty for other servers."""
    try:
        server, flags = _llama_in(argv, env)
        paths = {role: flags.text(role) for role in ROLES}
        return {role: parts_of(working_dir / server.outside(path)) for role, path in paths.items() if path}
    except CannotEstimate:
        return {}


def needed_files(argv: tuple[str, ...], env: Mapping[str, str], working_dir: Path) -> list[Path]:
    """The files of this machine without which the command surely fails.

    Empty where the command does not tell: a script, a shell or ssh may see other files, and `-hf` downloads them.
    """
    try:
        if not may_tell_files(argv):
            return []
        server, flags = _llama_in(argv, env)
        if any(map(flags.text, FETCHED)):
            return []
        paths = [path for path in map(flags.text, ROLES) if path and _is_here(path, server, _name(argv))]
        return [file for path in paths for file in parts_of(working_dir / server.outside(path))]
    except CannotEstimate:
        return []


def may_tell_files(argv: tuple[str, ...]) -> bool:
    """Whether this program is a llama-server, or runs one whose files are known. Much faster than to parse them."""
    name = _name(argv)
    return name.startswith(LLAMA) or name in WRAPPERS or name in ENGINES


def _llama_in(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[Server, LlamaFlags]:
    server = server_in(argv, env)
    if server.engine is not Engine.LLAMA:
        raise CannotEstimate(f"the files of {server.engine.value} are not known")
    return server, LlamaFlags.parse(server.options, server.env)


def _is_here(path: str, server: Server, name: str) -> bool:
    if name in ENGINES:
        mount = mount_of(path, server.mounts)  # without one, the image has the file, and a volume has a name
        return mount is not None and mount.outside.startswith("/")
    # A wrapper may change the folder.
    return name.startswith(LLAMA) or path.startswith("/")


def _name(argv: tuple[str, ...]) -> str:
    return argv[0].rpartition("/")[2]


def is_missing(file: Path) -> bool:
    """Reads the disk: not for the event loop. A file that this user may not see is not missing."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False
