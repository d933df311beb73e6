"""The entry point: finds models in folders, and gives a reason for every file that was left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.estimates.report import CannotEstimate
from hotseat.model_files import ollama
from hotseat.model_files.companions import paired
from hotseat.model_files.file_kind import read_checkpoint, read_gguf, read_whisper
from hotseat.model_files.found import Found, LeftOut, Role
from hotseat.model_files.model_names import Named, named
from hotseat.model_files.walk import Bounds, look_into

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class FoundModels:
    models: Sequence[Named] = ()
    left_out: Sequence[LeftOut] = ()
    unseen: Sequence[str] = ()
    """What the search did not reach, in whole sentences."""


@dataclass
class _Search:
    bounds: Bounds
    found: list[Found] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def read(self, paths: Iterable[Path], reader: Callable[[Path], Found]) -> None:
        for path in paths:
            if self.bounds.are_reached():
                self.unseen.append(f"The search timed out before {path} was read; name fewer folders.")
                return
            try:
                self.found.append(reader(path))
            except CannotEstimate as problem:
                self.left_out.append(LeftOut(path, problem.message))


def look(folders: Sequence[Path], stores: Sequence[Path] = (), bounds: Bounds | None = None) -> FoundModels:
    """Every model in these folders and Ollama stores, in a stable order."""
    search = _Search(bounds or Bounds())
    sight = look_into(folders, search.bounds)
    search.unseen += sight.unseen
    search.read(sight.ggufs, read_gguf)
    search.read(sight.checkpoints, read_checkpoint)
    search.read(sight.whispers, read_whisper)
    for store in stores:
        if refusal := ollama.refusal(store):
            search.unseen.append(refusal)
        else:
            search.read(ollama.manifests(store), partial(_from_ollama, store))
    models = sorted(paired(search.found), key=lambda model: (model.stem.lower(), str(model.path)))
    return FoundModels(named(models), search.left_out + _lonely(search.found, models), search.unseen)


def _from_ollama(store: Path, manifest: Path) -> Found:
    model, projector = ollama.blobs(store, manifest)
    return replace(read_gguf(model, ollama.name_of(manifest)), projector=projector)


def _lonely(found: Iterable[Found], models: Iterable[Found]) -> list[LeftOut]:
    """Projectors and drafts that belong to no model."""
    used = {path for model in models for path in (model.projector, model.draft)}
    return [
        LeftOut(each.path, f"{each.path} is a {each.role.value}, and no model beside it can use it")
        for each in found
        if each.role in (Role.PROJECTOR, Role.DRAFT) and each.path not in used
    ]
