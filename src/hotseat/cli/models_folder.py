"""The folder of `modelsDir`, the names of its files, and whether the running hotseat lists them."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from hotseat.cli.known_models import known
from hotseat.cli.problems import BadConfig, Problem, Unreachable
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.model_files.folder import ModelFolders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotseat.cli.client import Server
    from hotseat.cli.known_models import Places
    from hotseat.identifiers import Seconds

LISTED_S: Seconds = 30.0
"""hotseat scans the folder every two seconds, and waits two more until a file has settled."""
LOOK_S: Seconds = 0.2
ADVICE = """\
no folder for models is configured. Add one to your configuration, then run `hotseat reload`:

modelsDir:
  path: ~/models
  cmd: llama-server -m ${MODEL_PATH} ${MMPROJ} --port ${PORT} -c 16384"""


def models_folder(places: Places) -> Path:
    """Problem with the lines to add if there is none."""
    try:
        folder = known(places).folder
    except BadConfig:
        if places.config or USUAL_CONFIG.exists():
            raise
        folder = None
    if folder is None:
        raise Problem(ADVICE)
    return folder


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
