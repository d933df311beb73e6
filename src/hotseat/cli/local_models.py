"""The models of this machine, as the running hotseat or a configuration names them, and who uses which file.

Models have commands and files; those of `modelsDir` are the files of a folder, which hotseat lists soon after a change.
A file that a model's command mentions is in use, and is not deleted.
"""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hotseat.cli.client import Refused
from hotseat.cli.problems import BadConfig, Problem, Unreachable
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.downloads.links import cached_files
from hotseat.errors import did_you_mean
from hotseat.model_files.folder import ModelFolders
from hotseat.model_files.of_command import files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.cli.client import Server
    from hotseat.config.load import Loaded
    from hotseat.identifiers import Seconds

LOCAL = ("127.0.0.1", "localhost", "::1")
NAME_IT = "name its configuration with --config FILE"
LISTED_S: Seconds = 30.0
"""hotseat scans the folder every two seconds, and waits two more until a file has settled."""
LOOK_S: Seconds = 0.2
ADVICE = """\
no folder for models is configured. Add one to your configuration, then run `hotseat reload`:

modelsDir:
  path: ~/models
  cmd: llama-server -m ${MODEL_PATH} ${MMPROJ} --port ${PORT} -c 16384"""
BEFORE_PATH = r"(?:^|[\s='\":,;(]|\./)"
AFTER_PATH = r"(?![\w-])"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a command looks: the running server, and configuration files if the command line names any."""

    server: Server
    config: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class KnownModel:
    name: str
    aliases: tuple[str, ...]
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: Path = field(default_factory=Path.cwd)
    """Where its server starts: relative paths of its command are resolved there."""
    is_from_models_dir: bool = False

    def files(self) -> dict[str, list[Path]]:
        return files_of(self.argv, self.env, self.working_dir)


@dataclass(frozen=True, slots=True)
class Known:
    models: Mapping[str, KnownModel]
    models_dir: Path | None
    """As the running hotseat shows it: without values of the environment that may be secrets."""
    sources: tuple[str, ...]
    """The configuration files."""

    @property
    def folder(self) -> Path | None:
        """The folder of `modelsDir`."""
        if "${" in str(self.models_dir):
            raise Problem(f"the running hotseat does not show where {self.models_dir} is; {NAME_IT}")
        return self.models_dir

    def resolve(self, name: str) -> KnownModel:
        """By name or alias."""
        for model in self.models.values():
            if name in (model.name, *model.aliases):
                return model
        names = [each for model in self.models.values() for each in (model.name, *model.aliases)]
        advice = did_you_mean(name, names) or " `hotseat list` lists all models."
        raise Problem(f'model "{name}" is not defined in the configuration.{advice}')


def known(places: Places) -> Known:
    """The files that the command line names have precedence, then the running server, then config.yaml."""
    if places.config:
        return _written(places.config)
    return served(places.server) or _written([USUAL_CONFIG])


def _written(config: Sequence[Path]) -> Known:
    try:
        loaded = read(config, environ=os.environ)
    except ConfigError as error:
        raise BadConfig("\n".join(["the configuration has errors:", *map(str, error.problems)])) from None
    folder = loaded.models_dir.absolute() if loaded.models_dir else None
    return Known(_models(loaded), folder, tuple(map(str, loaded.files)))


def _models(loaded: Loaded) -> dict[str, KnownModel]:
    return {
        str(name): KnownModel(
            str(name),
            tuple(spec.aliases),
            spec.recipe.argv,
            dict(spec.recipe.env),
            is_from_models_dir=name in loaded.from_models_dir,
        )
        for name, spec in loaded.catalog.models.items()
    }


def served(server: Server) -> Known | None:
    """None: no hotseat runs on this machine, or the key may not see its configuration."""
    if not is_local(server):
        return None
    try:
        shown = server.ask("GET", "/hotseat/config")["resolved"]
    except (Unreachable, Refused):
        return None
    folder = Path(shown["modelsDir"]) if shown["modelsDir"] else None
    return Known(dict(_shown_models(shown)), folder, tuple(shown["files"]))


def _shown_models(shown: Mapping[str, Any]) -> Iterator[tuple[str, KnownModel]]:
    names, working_dir = frozenset(shown["fromModelsDir"]), Path(shown["workingDir"])
    for name, model in shown["models"].items():
        aliases, argv = tuple(model["aliases"]), tuple(model["cmd"])
        yield name, KnownModel(name, aliases, argv, model["env"], working_dir, name in names)


def refuse_another_machine(places: Places) -> None:
    """For commands that change files of this machine."""
    if not places.config and not is_local(places.server):
        raise Problem(
            f"{places.server.url} is another machine; run the command there, or name a configuration of this machine: "
            "`hotseat pull` and `hotseat rm` have --config FILE"
        )


def is_local(server: Server) -> bool:
    url = server.url if "://" in server.url else f"http://{server.url}"
    return urlsplit(url).hostname in LOCAL


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


@dataclass(frozen=True, slots=True)
class FileUsers:
    models: Sequence[KnownModel]

    def of(self, path: Path) -> KnownModel | None:
        """A model that no longer works without this path; of a link, one that names the link itself."""
        if not path.is_symlink():
            return self.of_content(path)
        place = _place(path)
        return self._first(
            lambda model: (
                any(_place(file) == place for file in _files(model))
                or any(mentions(model, each) for each in (path, place))
            )
        )

    def of_content(self, path: Path) -> KnownModel | None:
        """A model that no longer works without the file that this path leads to."""
        real = path.resolve()
        names = (path, _place(path), real, *cached_files(path))
        return self._first(
            lambda model: (
                any(file.resolve() == real for file in _files(model)) or any(mentions(model, each) for each in names)
            )
        )

    def _first(self, is_user: Callable[[KnownModel], bool]) -> KnownModel | None:
        return next(filter(is_user, self.models), None)


def mentions(model: KnownModel, path: Path) -> bool:
    """Whether the command or the environment contains this path; no knowledge of the server's options is needed."""
    text = "\n".join((*model.argv, *model.env.values()))
    shorter = "|".join(map(re.escape, _shorter(path, model.working_dir)))
    return str(path) in text or bool(
        shorter and re.search(f"{BEFORE_PATH}(?:{shorter}){AFTER_PATH}", text, re.MULTILINE)
    )


def _shorter(path: Path, working_dir: Path) -> Iterator[str]:
    """How a command may write the path if it is below its working directory or the home directory."""
    if path.is_relative_to(working_dir):
        yield str(path.relative_to(working_dir))
    if path.is_relative_to(Path.home()):
        yield f"~/{path.relative_to(Path.home())}"


def _files(model: KnownModel) -> list[Path]:
    return [file for files in model.files().values() for file in files]


def _place(path: Path) -> Path:
    """The path with the links among its folders resolved, but not the last link."""
    return path.parent.resolve() / path.name
