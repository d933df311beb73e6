"""PURE: reads the command line of `docker run` and of the programs that understand the same options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENGINES = ("docker", "podman", "nerdctl")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

# Options of `docker run` and `podman run` without a value; every other one is followed by its value.
ALONE = {"--rm", "--init", "--privileged", "--detach", "--interactive", "--tty", "--read-only", "--publish-all"}
ALONE |= {"--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet", "--replace", "--disable-content-trust"}
ALONE |= {"--env-host", "--http-proxy", "--no-hosts", "--passwd", "--read-only-tmpfs", "--rmi", "--rootfs"}
ALONE |= {"--tls-verify", "--unsetenv-all", "--use-api-socket"}
ALONE_LETTERS = re.compile(r"-[ditPq]+")


class Mount(Struct, frozen=True):
    """A folder of this machine mounted into a container under another path."""

    outside: str
    inside: str


class ContainerRun(Struct, frozen=True):
    options: tuple[tuple[str, str], ...]
    """Name and value; the value of an option without one is empty."""
    image: str
    arguments: tuple[str, ...]
    """What the program in the container gets, after its own name."""

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.options if name in names)

    @property
    def entry(self) -> tuple[str, ...]:
        return self.values("--entrypoint")[-1:]

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
        """The path on this machine of a file that the container knows as `path`."""
        return outside(path, self.mounts)


def outside(path: str, mounts: tuple[Mount, ...]) -> str:
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
    """What `docker run …` says; None for another program, another command of it, and without an image."""
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
