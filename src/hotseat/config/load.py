"""`read` turns files into a Catalog and Settings, or reports every error at once."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, structs

from hotseat.catalog.spec import NOTHING
from hotseat.config.build import Built, FindDevices, build, no_devices
from hotseat.config.conversations import with_conversations
from hotseat.config.crosscheck import warn_of_own_address
from hotseat.config.document import Document, Provenance, merge, parse
from hotseat.config.environment import NOTHING_CONCEALED, Concealed, with_secrets
from hotseat.config.llamaswap import differences
from hotseat.config.macros import expand_all
from hotseat.config.models_dir import folder_of, with_files
from hotseat.config.named_models import warn_of_proxies
from hotseat.config.problems import ConfigProblem, Path, Problems, Severity, Spot
from hotseat.config.validate import validate, without_foreign_keys
from hotseat.model_files.folder import offered_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path as FilePath

    from hotseat.catalog.catalog import Catalog
    from hotseat.config.models_dir import Offer
    from hotseat.config.schema import Config
    from hotseat.identifiers import MeasuredMemory
    from hotseat.settings import Settings


INIT = "`hotseat init` writes a configuration"
LookAgain: TypeAlias = "Callable[[Offer], Catalog]"


@dataclass(frozen=True)
class Loaded:
    catalog: Catalog
    settings: Settings
    problems: tuple[ConfigProblem, ...] = ()
    """Warnings and notes; none of them prevents startup."""
    withheld_env: frozenset[str] = frozenset()
    """Variables that hold hotseat's own keys: model servers must not inherit them."""
    files: tuple[FilePath, ...] = ()
    """The files that were read, directories resolved."""
    differences: tuple[ConfigProblem, ...] = ()
    """What happens differently than in llama-swap."""
    measured: MeasuredMemory = field(default_factory=lambda: NOTHING, compare=False)
    """Memory that earlier runs measured; set when the models' figures are looked up."""
    models_dir: FilePath | None = None
    """The folder whose files are models."""
    written_models: frozenset[str] = frozenset()
    """The models under `models` in the text; every other model is a file of `models_dir`."""
    concealed: Concealed = field(default=NOTHING_CONCEALED, compare=False)
    """Values that came from the environment and must not be shown."""
    spots: dict[Path, Spot] = field(default_factory=dict, compare=False)
    """Where each key stands in the files."""
    look_again: LookAgain | None = field(default=None, compare=False)
    """Rebuilds the catalog from the same text and the folder's current files; it does not read the text again."""

    @property
    def from_models_dir(self) -> list[str]:
        return [name for name in self.catalog.models if name not in self.written_models]


class Surroundings(Struct, frozen=True):
    """What besides the text determines its meaning."""

    environ: Mapping[str, str]
    find_devices: FindDevices
    lenient: bool
    listen: tuple[str, int] | None
    """Instead of what the text says; None: the text decides."""


def read(
    paths: Sequence[FilePath],
    *,
    environ: Mapping[str, str],
    lenient: bool = False,
    offer: Offer = offered_by,
    find_devices: FindDevices = no_devices,
    listen: tuple[str, int] | None = None,
) -> Loaded:
    """Read files and directories as one configuration; ConfigError carries every error.

    `offer` lists the models of a folder, `find_devices` resolves `devices: auto`, `listen` is of the command line.
    """
    name = str(paths[0]) if paths else ""
    problems = Problems(name)
    files = _files(paths, problems)
    document = _document(files, environ, problems)

    around = Surroundings(environ, find_devices, lenient, listen)

    def understood(offer: Offer, problems: Problems) -> Loaded:
        return _understood(document, offer, problems, around)

    loaded = understood(offer, problems)
    return replace(loaded, files=files, look_again=lambda offer: understood(offer, Problems(name)).catalog)


def _understood(written: Document, offer: Offer, problems: Problems, around: Surroundings) -> Loaded:
    problems.spots = written.spots
    document = with_files(written, offer, problems)
    problems.spots = document.spots
    provenance = Provenance(document)
    concealed = Concealed(document.values, provenance.by_place())
    problems.hide_with(concealed)
    value = expand_all(without_foreign_keys(document), problems)
    config = validate(value, document, problems, lenient=around.lenient)
    built = _built(config, document.value, problems, around.find_devices)
    settings = structs.replace(built.settings, listen=around.listen or built.settings.listen)
    warn_of_proxies(built.catalog, around.environ, problems)
    warn_of_own_address(built.catalog, settings, problems)
    return Loaded(
        with_secrets(with_conversations(built.catalog, settings.conversations, around.environ), concealed),
        settings,
        problems.ordered(),
        _withheld(document, provenance),
        differences=tuple(differences(written.value, problems)),
        models_dir=folder_of(document.value),
        written_models=frozenset(written.value.get("models") or ()),
        concealed=concealed,
        spots=document.spots,
    )


def _built(config: Config | None, value: dict[str, Any], problems: Problems, find_devices: FindDevices) -> Built:
    models = value.get("models")
    names = list(models) if isinstance(models, dict) else []
    built = build(config, names, problems, find_devices) if config else None
    problems.raise_errors()
    assert built is not None, "a configuration without problems is a configuration"
    return built


# Files


def _files(paths: Sequence[FilePath], problems: Problems) -> tuple[FilePath, ...]:
    """The given files, then the files of each directory, sorted by name."""
    files: dict[FilePath, FilePath] = {}
    for file in _each_file(paths):
        real = file.resolve()
        if real in files:
            problems.write(Severity.ERROR, Spot(str(file), 1, 1), (), "the file is listed twice", "List it once")
        files.setdefault(real, file)
    return tuple(files.values())


def _each_file(paths: Sequence[FilePath]) -> Iterator[FilePath]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in (".yml", ".yaml") and file.is_file())
        else:
            yield path


def _document(files: Sequence[FilePath], environ: Mapping[str, str], problems: Problems) -> Document:
    if not files:
        problems.error((), "no configuration file found", f"Name a file, or a directory with .yaml files. {INIT}")
    documents = [_parsed(file, environ, problems) for file in files]
    read = [document for document in documents if document]
    if not files or len(read) < len(documents):
        # The rest cannot be checked: what it lacks may be in the file that could not be read.
        problems.raise_errors()
    return merge(read, problems)


def _parsed(file: FilePath, environ: Mapping[str, str], problems: Problems) -> Document | None:
    text = _text(file, problems)
    return None if text is None else parse(text, str(file), environ, problems)


def _text(file: FilePath, problems: Problems) -> str | None:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        hint = INIT if isinstance(error, FileNotFoundError) else ""
        problems.write(Severity.ERROR, Spot(str(file), 1, 1), (), f"the file cannot be read: {reason}", hint)
        return None
    if os.geteuid() == 0 and file.stat().st_mode & stat.S_IWOTH:
        said = "any user may write this file, and hotseat runs its commands as root"
        problems.write(Severity.WARNING, Spot(str(file), 1, 1), (), said, f"Run chmod o-w {file}")
    return text


# Secrets


FLEET_SECRETS = (("secret",), ("password",))


def _withheld(document: Document, provenance: Provenance) -> frozenset[str]:
    """The variables behind hotseat's own keys and those of peers and of the fleet, also through macros."""
    secrets: list[Path] = [path for path in document.spots if path[0] == "apiKeys"]
    secrets += [path for path in document.spots if path[0] == "peers" and path[2:] == ("apiKey",)]
    secrets += [path for path in document.spots if path[0] == "fleet" and path[1:2] in FLEET_SECRETS]
    return frozenset().union(*map(provenance.variables, secrets))
