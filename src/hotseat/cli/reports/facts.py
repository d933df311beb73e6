"""Facts about this installation and this machine: versions, drivers, devices."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat import __version__
from hotseat.memory.machine import driver_versions
from hotseat.model_servers.launch_processes import environment, find_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.config.load import Loaded
    from hotseat.memory.machine import Machine
    from hotseat.memory.measurement import Reading

_NAME = re.compile(r"[\w.-]+")
PATIENCE_S = 10.0
"""For `llama-server --version`: it takes a second to look for GPUs."""


def versions(loaded: Loaded | None) -> dict[str, Any]:
    return {
        "hotseat": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "drivers": driver_versions(),
        "packages": dict(packages()),
        "programs": dict(programs(loaded)) if loaded else {},
    }


def packages() -> Iterator[tuple[str, str]]:
    """What hotseat needs, if it is installed; extras may be missing."""
    for requirement in metadata.requires("hotseat") or ():
        name = _NAME.match(requirement)[0]  # type: ignore[index]  # every requirement begins with one
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def programs(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """The version of each llama-server in the configuration. Other servers take too long to say theirs."""
    for spec in loaded.catalog.models.values():
        if Path(spec.recipe.argv[0]).name == "llama-server":
            env = environment(os.environ, spec.recipe.env)
            yield spec.recipe.argv[0], version_of(spec.recipe.argv[0], env)


def version_of(program: str, env: dict[str, str]) -> str:
    try:
        command = [find_program(program, env), "--version"]
        done = subprocess.run(command, check=False, env=env, capture_output=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return "; ".join(line for line in lines if line.startswith(("version", "built"))) or f"exit code {done.returncode}"


def devices(machine: Machine, reading: Reading) -> list[dict[str, Any]]:
    """`unified`: the GPU uses the machine's RAM."""
    return [
        {
            "device": name,
            "label": machine.labels[name],
            "total": seen.total,
            "used": seen.used,
            "unified": name in machine.borrowers,
            "reports_users": name not in reading.silent,
        }
        for name, seen in reading.devices.items()
    ]
