"""The program and the model files that a command line names: looked for before anything is unloaded for the model."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import without
from hotseat.estimates.command import ENGINES, Engine, mount_of, server_in
from hotseat.estimates.files import parts_of
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.report import CannotEstimate
from hotseat.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.estimates.command import Server
    from hotseat.identifiers import Seconds

LLAMA = Engine.LLAMA.value
ROLES = ("model", "projector", "draft")
FETCHED = ("fetched", "fetched_draft")
WRAPPERS = ("env", "nice", "ionice", "numactl", "taskset", "chrt", "stdbuf", "setsid", "nohup", "timeout")
"""Programs that run another one with the same files."""
LOCAL = ("/", "./", "../")
"""How a path begins that cannot be the name of a model on a hub."""
LOOK_S: Seconds = 1.0
"""If a disk takes longer, the request goes on, and its start says what is missing."""
MOST_LOOKS = 8
"""Threads that may hang."""


class FileLooks:
    """Each look has a thread of its own: a disk that hangs must block neither other looks nor our exit."""

    def __init__(self) -> None:
        self.looking: dict[LaunchRecipe, asyncio.Future[str]] = {}
        """Until the disk has answered."""

    def look(self, recipe: LaunchRecipe) -> asyncio.Future[str] | None:
        """What is missing; empty: nothing, or the disk hangs. None: too much hangs."""
        if not (found := self.looking.get(recipe)) and len(self.looking) < MOST_LOOKS:
            loop = asyncio.get_running_loop()
            with suppress(RuntimeError):  # no thread can be started: the start says what is missing
                start_thread("look for files", self._look, recipe, loop)
                found = self.looking[recipe] = loop.create_future()
                loop.call_later(LOOK_S, _answer, found, "")
        return found

    def _look(self, recipe: LaunchRecipe, loop: asyncio.AbstractEventLoop) -> None:
        missing = ""
        with suppress(OSError):  # such as a working directory that was deleted
            missing = what_is_missing(recipe)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: _answer(self.looking.pop(recipe), missing))


def _answer(found: asyncio.Future[str], missing: str) -> None:
    if not found.done():
        found.set_result(missing)


def what_is_missing(recipe: LaunchRecipe) -> str:
    """Why the command surely fails, in whole sentences; empty: nothing is known. Not for the loop."""
    if missing := missing_file(recipe):
        return f'the file "{missing}" does not exist. Copy it there, or correct `cmd`.'
    program = recipe.argv[0]
    path = dict(recipe.env).get("PATH", os.environ.get("PATH", os.defpath))
    if shutil.which(program, path=path) or without(program, recipe.secrets) != program:
        return ""
    if "/" in program:
        return f'"{program}" is not executable: run chmod +x.'
    return f'no program named "{program}" on PATH. Install it, or correct `cmd`.'


def missing_file(recipe: LaunchRecipe) -> str:
    """A file without which the command surely fails, unless its path has a secret; empty: none. Not for the loop."""
    missing = (str(file) for file in needed_files(recipe.argv, recipe.env, Path.cwd()) if is_missing(file))
    return next((file for file in missing if without(file, recipe.secrets) == file), "")


def files_of(argv: tuple[str, ...], env: Mapping[str, str], working_dir: Path) -> dict[str, list[Path]]:
    """The files of a llama-server by what they are for, with all parts; empty for other servers."""
    try:
        server, flags = _llama_in(argv, env)
        paths = {role: flags.text(role) for role in ROLES}
        return {role: parts_of(working_dir / server.outside(path)) for role, path in paths.items() if path}
    except CannotEstimate:
        return {}


@lru_cache(maxsize=16_384)  # a host of a fleet asks every few seconds
def needed_files(argv: tuple[str, ...], env: tuple[tuple[str, str], ...], working_dir: Path) -> list[Path]:
    """The files of this machine without which the command surely fails, the program included.

    No others where the command does not tell: a script, a shell, sudo or ssh may see other files, and `-hf` downloads
    them.
    """
    program = [working_dir / argv[0]] if "/" in argv[0] else []
    try:
        if not _runs_llama(argv):
            model = _model_of_another(argv)
            return [*program, working_dir / model] if model else program
        server, flags = _llama_in(argv, dict(env))
        if any(map(flags.text, FETCHED)):
            return program
        named = [*map(flags.text, ROLES), *(flags.text("adapters") or "").split(",")]
        paths = [path for path in named if path and _is_here(path, server, _name(argv))]
        return [*program, *(file for path in paths for file in parts_of(working_dir / server.outside(path)))]
    except CannotEstimate:
        return program


def may_tell_files(argv: tuple[str, ...]) -> bool:
    """Whether there may be a path to look for. Much faster than to parse the command."""
    return "/" in argv[0] or _runs_llama(argv) or bool(_model_of_another(argv))


def _runs_llama(argv: tuple[str, ...]) -> bool:
    """Whether this program is a llama-server, or runs one whose files are known."""
    name = _name(argv)
    return name.startswith(LLAMA) or name in WRAPPERS or name in ENGINES


def _model_of_another(argv: tuple[str, ...]) -> str:
    """What a whisper-server, vLLM or MLX that this program is loads from disk; empty: not told, or perhaps from a hub.

    Not through a wrapper or in a container.
    """
    is_module = _name(argv).startswith("python") and argv[1:2] == ("-m",) and len(argv) > 2
    name, words = (argv[2], argv[3:]) if is_module else (_name(argv), argv[1:])
    if name.startswith("whisper-server"):
        return _last(words, "-m", "--model")  # it downloads nothing
    if name == "vllm" and words[:1] == ("serve",):
        model = words[1] if words[1:] and not words[1].startswith("-") else _last(words, "--model")
    elif name.startswith(("vllm.entrypoints.", "mlx_lm")):
        model = _last(words, "--model")
    else:
        return ""
    return model if model.startswith(LOCAL) else ""


def _last(words: tuple[str, ...], *flags: str) -> str:
    """The value that counts of an option given more than once."""
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--model=") else (word,))]
    return next((value for flag, value in reversed([*pairwise(split)]) if flag in flags), "")


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
