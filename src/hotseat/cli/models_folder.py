"""The folder of `modelsDir` on this machine, as the running hotseat or a configuration names it, and its models."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hotseat.cli.client import Refused
from hotseat.cli.problems import BadConfig, Problem, Unreachable
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.model_files.folder import ModelFolders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.cli.client import Server
    from hotseat.identifiers import Seconds

LISTED_S: Seconds = 30.0
"""hotseat scans the folder every two seconds, and waits two more until a file has settled."""
LOOK_S: Seconds = 0.2
LOCAL = ("127.0.0.1", "localhost", "::1")
ADVICE = """\
no folder for models is configured. Add one to your configuration, then run `hotseat reload`:

modelsDir:
  path: ~/models
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT} -c 16384"""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a command looks: the running server, and configuration files if the command line names any."""

    server: Server
    config: Sequence[Path] = ()


def models_folder(places: Places) -> Path:
    """The files that the command line names have precedence, then the running server, then config.yaml."""
    if places.config:
        found = _written(places.config)
    else:
        found = _served(places.server) or (_written([USUAL_CONFIG]) if USUAL_CONFIG.exists() else None)
    if found is None:
        raise Problem(ADVICE)
    return found.absolute()


def _written(config: Sequence[Path]) -> Path | None:
    try:
        return read(config, environ=os.environ).models_dir
    except ConfigError as error:
        raise BadConfig("\n".join(["the configuration has errors:", *map(str, error.problems)])) from None


def _served(server: Server) -> Path | None:
    """None: no hotseat runs on this machine, or it has no folder, or the key may not see its configuration."""
    if not is_local(server):
        return None
    try:
        folder = server.ask("GET", "/hotseat/config")["resolved"].get("modelsDir")
    except (Unreachable, Refused):
        return None
    return Path(folder) if folder else None


def is_local(server: Server) -> bool:
    url = server.url if "://" in server.url else f"http://{server.url}"
    return urlsplit(url).hostname in LOCAL


def models_in(folder: Path) -> Mapping[str, Path]:
    """Names and files, also of files that have just been written."""
    return ModelFolders(clock=lambda: math.inf).look(folder)


def name_of(file: Path, folder: Path) -> str:
    """The name under which hotseat lists the file."""
    real = file.resolve()
    for name, path in models_in(folder).items():
        if path.resolve() == real:
            return name
    raise Problem(f"{file} was downloaded, but it is no model that llama-server can run")


def wait_until_listed(server: Server, name: str, *, wanted: bool = True) -> bool:
    """Whether the running hotseat lists the model, or no longer lists it; False: no hotseat runs."""
    until = time.monotonic() + LISTED_S
    while True:
        try:
            listed = [model["id"] for model in server.ask("GET", "/v1/models")["data"]]
        except Unreachable:
            return False
        if (name in listed) is wanted:
            return True
        if time.monotonic() > until:
            verb = "does not list" if wanted else "still lists"
            raise Problem(f"{server.url} {verb} {name} after {LISTED_S:g} s; does its modelsDir name this folder?")
        time.sleep(LOOK_S)
