"""PURE: finds the server that a command line starts, also through a shell, a container, nice and similar wrappers."""

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
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHELLS = ("sh", "bash", "dash", "zsh", "ash")
MODEL_FILE = re.compile(r".+\.gguf")
DEEPEST = 8
"""Wrappers within wrappers; no real command line has more."""
ENGINES = ("docker", "podman", "nerdctl")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# Options of `docker run` and `podman run` without a value; every other one is followed by its value.
ALONE = {"--rm", "--init", "--privileged", "--detach", "--interactive", "--tty", "--read-only", "--publish-all"}
ALONE |= {"--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet", "--replace", "--disable-content-trust"}
ALONE |= {"--env-host", "--http-proxy", "--no-hosts", "--passwd", "--read-only-tmpfs", "--rmi", "--rootfs"}
ALONE |= {"--tls-verify", "--unsetenv-all", "--use-api-socket"}
ALONE_LETTERS = re.compile(r"-[ditPq]+")


class Engine(Enum):
    LLAMA = "llama-server"
    VLLM = "vLLM"


class Mount(Struct, frozen=True):
    """A folder of this machine mounted into a container under another path."""

    outside: str
    inside: str


class Server(Struct, frozen=True):
    engine: Engine
    options: tuple[str, ...]
    env: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()

    def outside(self, path: str) -> str:
        return outside(path, self.mounts)


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
    server = _in_image(run.image, (*run.values("--entrypoint")[-1:], *run.arguments), run.env(env))
    return server and replace(server, mounts=run.mounts)


def _in_image(image: str, words: tuple[str, ...], env: dict[str, str]) -> Server | None:
    """The command given to the image, or what images of that name start by default."""
    if found := _search(words, env, DEEPEST - 1):
        return found
    if "vllm" in image:
        return Server(Engine.VLLM, words, env)
    return Server(Engine.LLAMA, words, env) if "llama" in image else None


class ContainerRun(Struct, frozen=True):
    options: tuple[tuple[str, str], ...]
    """Name and value; the value of an option without one is empty."""
    image: str
    arguments: tuple[str, ...]
    """What the program in the container gets, after its own name."""

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.options if name in names)

    def env(self, of_client: Mapping[str, str]) -> dict[str, str]:
        """The variables in the container; only `-e NAME` and `--env-host` pass on the client's."""
        named = [value for value in self.values("-e", "--env") if not ASSIGNMENT.fullmatch(value)]
        passed = (
            of_client if self.values("--env-host") else {name: of_client[name] for name in named if name in of_client}
        )
        assigned = (ASSIGNMENT.fullmatch(value) for value in self.values("-e", "--env"))
        return {**passed, **{found[1]: found[2] for found in assigned if found}}

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(mount for name, value in self.options for mount in _mounts(name, value))

    def outside(self, path: str) -> str:
        return outside(path, self.mounts)


def outside(path: str, mounts: tuple[Mount, ...]) -> str:
    """The path on this machine of a file that a container knows as `path`."""
    mount = mount_of(path, mounts)
    return mount.outside.rstrip("/") + path[len(mount.inside.rstrip("/")) :] if mount else path


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mounted folder in which a container finds this path."""
    for mount in sorted(mounts, key=lambda mount: -len(mount.inside)):
        inside = mount.inside.rstrip("/")
        if path == inside or path.startswith(f"{inside}/"):
            return mount
    return None


def container_run(argv: tuple[str, ...]) -> ContainerRun | None:
    """What `docker run …` says, or a program like it; None for another command, and without an image."""
    if not argv or argv[0].rpartition("/")[2] not in ENGINES or "run" not in argv:
        return None
    words = list(argv[argv.index("run") + 1 :])
    options = tuple(_options(words))
    return ContainerRun(options, words[0], tuple(words[1:])) if words else None


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Takes the options off the front of `words`."""
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if not equals and name not in ALONE and not ALONE_LETTERS.fullmatch(name):
            value = words.pop(0) if words else ""
        yield name, value


def _mounts(option: str, value: str) -> list[Mount]:
    if option in ("-v", "--volume"):
        outer, _, inner = value.partition(":")
        return [Mount(outer, inner.partition(":")[0])] if inner else []
    if option != "--mount":
        return []
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    source = parts.get("source") or parts.get("src")
    target = parts.get("target") or parts.get("destination") or parts.get("dst")
    return [Mount(source, target)] if source and target else []
