"""The models of this machine with their commands and files, as the running hotseat or a configuration names them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hotseat.cli.client import Refused
from hotseat.cli.problems import BadConfig, Problem, Unreachable
from hotseat.cli.shared_options import USUAL_CONFIG
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.errors import did_you_mean
from hotseat.model_files.of_command import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.cli.client import Server
    from hotseat.config.load import Loaded

LOCAL = ("127.0.0.1", "localhost", "::1")
NAME_IT = "name its configuration with --config FILE"


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
