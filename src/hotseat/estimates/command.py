"""Finds the server that a command line starts, also through env, a shell, a container, nice and similar wrappers."""

from __future__ import annotations

import re
import shlex
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hotseat.catalog.redaction import redacted
from hotseat.catalog.spec import NOTHING
from hotseat.estimates.container_run import ASSIGNMENT, ENGINES, container_run, outside
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.estimates.container_run import ContainerRun, Mount


class Engine(Enum):
    LLAMA = "llama-server"
    VLLM = "vLLM"


class Server(Struct, frozen=True):
    engine: Engine
    options: tuple[str, ...]
    env: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()

    def outside(self, path: str) -> str:
        """The path on this machine of a file that the server knows as `path`."""
        return outside(path, self.mounts)


SHELLS = ("sh", "bash", "dash", "zsh", "ash")
MODEL_FILE = re.compile(r".+\.gguf")
DEEPEST = 8
"""Wrappers within wrappers; no real command line has more."""


def server_in(argv: tuple[str, ...], env: Mapping[str, str] = NOTHING) -> Server:
    """The model server that this command starts; CannotEstimate if it is not a known one."""
    found = _search(argv, dict(env), 0)
    if found is None:
        known = " and ".join(engine.value for engine in Engine)
        shown = shlex.join(redacted(argv[:3]))[:80]
        raise CannotEstimate(f"`{shown} …` does not start a known server ({known}); set memory manually")
    return found


def _search(argv: tuple[str, ...], env: dict[str, str], depth: int) -> Server | None:
    for n, word in enumerate(argv[: 10_000 if depth < DEEPEST else 0]):
        rest = argv[n + 1 :]
        program = word.rpartition("/")[2]
        if assigned := ASSIGNMENT.fullmatch(word):
            env[assigned[1]] = assigned[2]
        elif program in SHELLS:
            return _in_shell(rest, env, depth)
        elif program in ENGINES:
            return _in_container(container_run(argv[n:]), env)
        elif program.startswith("llama-server"):
            return Server(Engine.LLAMA, rest, env)
        elif program == "vllm" and rest[:1] == ("serve",):
            return Server(Engine.VLLM, rest[1:], env)
        elif word.startswith("vllm.entrypoints."):
            return Server(Engine.VLLM, rest, env)
    return _by_its_model(argv, env)


def _by_its_model(argv: tuple[str, ...], env: dict[str, str]) -> Server | None:
    """A program that gets a GGUF file with -m is taken for llama-server, whatever its name."""
    for flag, value in pairwise(argv):
        if flag in ("-m", "--model") and MODEL_FILE.fullmatch(value):
            return Server(Engine.LLAMA, argv, env)
    return None


def _in_shell(rest: tuple[str, ...], env: dict[str, str], depth: int) -> Server | None:
    """`sh -c 'words'`, with the last command of the line; `sh script` cannot be analysed."""
    for flag, script in pairwise(rest):
        if re.fullmatch(r"-[a-z]*c", flag):
            try:
                words = shlex.split(script)
            except ValueError:
                return None
            return _search(tuple(words), env, depth + 1)
    return None


def _in_container(run: ContainerRun | None, env: dict[str, str]) -> Server | None:
    if run is None:
        return None
    server = _in_image(run.image, (*run.entry, *run.arguments), run.env(env))
    return server and replace(server, mounts=run.mounts)


def _in_image(image: str, words: tuple[str, ...], env: dict[str, str]) -> Server | None:
    """The command given to the image, or what images of that name start by default."""
    if found := _search(words, env, DEEPEST - 1):
        return found
    if "vllm" in image:
        return Server(Engine.VLLM, words, env)
    return Server(Engine.LLAMA, words, env) if "llama" in image else None
