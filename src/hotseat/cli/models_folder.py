"""The folder of `modelsDir`, the names of its files, and whether the running hotseat lists them."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from hotseat.cli.file_users import mentions
from hotseat.cli.known_models import known, refuse_another_machine, served
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
    refuse_another_machine(places)
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


def wait_until_listed(server: Server, name: str) -> bool:
    """True: the running hotseat lists the model; False: no hotseat runs."""
    until = time.monotonic() + LISTED_S
    while True:
        try:
            listed = [model["id"] for model in server.ask("GET", "/v1/models")["data"]]
        except Unreachable:
            return False
        if name in listed:
            return True
        if time.monotonic() > until:
            raise Problem(
                f"{server.url} does not list {name} after {LISTED_S:g} s; does its modelsDir name this folder?"
            )
        time.sleep(LOOK_S)


def wait_until_gone(server: Server, file: Path) -> None:
    """Until no model of the running hotseat is made from this file; its name may belong to another file by then."""
    until = time.monotonic() + LISTED_S
    while name := _made_from(file, server):
        if time.monotonic() > until:
            raise Problem(f"{file} is deleted, but {server.url} still lists {name} after {LISTED_S:g} s")
        time.sleep(LOOK_S)


def _made_from(file: Path, server: Server) -> str:
    """Empty: no model, or no hotseat runs."""
    running = served(server)
    models = running.models.values() if running else ()
    return next((model.name for model in models if model.is_from_models_dir and mentions(model, file)), "")
