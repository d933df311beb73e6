"""Warns of commands that start a container which hotseat cannot stop, or only once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.estimates.command import container_run

if TYPE_CHECKING:
    from hotseat.config.problems import Path, Problems
    from hotseat.estimates.command import ContainerRun

DETACHED = re.compile(r"--detach|-[itPq]*d[ditPq]*")


def warn_of_container(argv: tuple[str, ...], stop: tuple[str, ...] | None, path: Path, problems: Problems) -> None:
    """`argv` and `stop` are a model's `cmd` and `cmdStop`."""
    if (run := container_run(argv)) is None:
        return None
    if is_detached(run):
        said = "the command ends at once, and hotseat takes the server for ended"
        return problems.warn((*path, "cmd"), f"with --detach {said}", "Remove -d and --detach")
    if stop is None:
        said = "a container that does not end on SIGTERM outlives its model: only the client can be killed"
        return problems.warn((*path, "cmd"), said, stop_hint(argv[0].rpartition("/")[2], run))
    if run.values("--name") and not run.values("--rm", "--replace") and "rm" not in " ".join(stop).split():
        said = "the container stays after its end, so the next start finds its name taken"
        return problems.warn((*path, "cmd"), said, "Add --rm")
    return None


def is_detached(run: ContainerRun) -> bool:
    return any(DETACHED.fullmatch(name) and value != "false" for name, value in run.options)


def stop_hint(engine: str, run: ContainerRun) -> str:
    if name := run.values("--name")[-1:]:
        return f"Add cmdStop: {engine} stop {name[0]}"
    return f"Add --name ${{MODEL_ID}} to cmd, and cmdStop: {engine} stop ${{MODEL_ID}}"
