"""Finds models in folders, names them, and gives a reason for every file that was left out.

Folders are scanned within limits of depth, entries and time. Links are followed, but no folder is visited twice.
Projectors and drafts are matched with the models in the same folder that they fit.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter, deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from hotseat.estimates.files import PART
from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import QUANT, Found, LeftOut, Role, read_checkpoint, read_gguf, read_whisper
from hotseat.model_files.usual_folders import ollama_blobs, ollama_manifests, ollama_name, ollama_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from hotseat.identifiers import Instant, Seconds

DEEPEST = 8
MOST_ENTRIES = 200_000
LONGEST_S: Seconds = 20.0
UNFINISHED = (".part", ".partial", ".incomplete", ".tmp", ".aria2", ".crdownload", ".download", ".unfinished")
"""Suffixes of files that download programs are still writing."""
PREFERRED = ("F16", "BF16", "Q8_0", "F32")
"""Projectors often come in several formats; the first of these is small enough and loses nothing."""
UNFIT = re.compile(r"[^A-Za-z0-9._:/-]+")
"""Characters that are hard to type or have a meaning in a shell, a URL or YAML."""


@dataclass(frozen=True, slots=True)
class FoundModels:
    models: Sequence[Named] = ()
    left_out: Sequence[LeftOut] = ()
    unseen: Sequence[str] = ()
    """What the search did not reach, in whole sentences."""


class _Search(Struct):
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
        if unread := ollama_refusal(store):
            search.unseen.append(unread)
        else:
            search.read(ollama_manifests(store), partial(_from_ollama, store))
    models = sorted(paired(search.found), key=lambda model: (model.stem.lower(), str(model.path)))
    return FoundModels(named(models), search.left_out + _lonely(search.found, models), search.unseen)


def _from_ollama(store: Path, manifest: Path) -> Found:
    model, projector = ollama_blobs(store, manifest)
    return replace(read_gguf(model, ollama_name(manifest)), projector=projector)


def _lonely(found: Iterable[Found], models: Iterable[Found]) -> list[LeftOut]:
    """Projectors and drafts that belong to no model."""
    used = {path for model in models for path in (model.projector, model.draft)}
    return [
        LeftOut(each.path, f"{each.path} is a {each.role.value}, and no model beside it can use it")
        for each in found
        if each.role in (Role.PROJECTOR, Role.DRAFT) and each.path not in used
    ]


class Bounds(Struct):
    """The limits of a scan, and what it has used of them."""

    deepest: int = DEEPEST
    entries: int = MOST_ENTRIES
    seconds: Seconds = LONGEST_S
    clock: Callable[[], Instant] = time.monotonic
    _ends_at: Instant | None = None

    def are_reached(self) -> bool:
        if self._ends_at is None:
            self._ends_at = self.clock() + self.seconds
        return self.entries <= 0 or self.clock() >= self._ends_at


class Sight(Struct):
    """The files a scan has found, each once under its first name."""

    ggufs: list[Path] = field(default_factory=list)
    """The first file of each split model."""
    checkpoints: list[Path] = field(default_factory=list)
    """Folders with config.json and *.safetensors."""
    whispers: list[Path] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Folders that could not be read, and where the scan ended early; whole sentences."""


def look_into(folders: Iterable[Path], bounds: Bounds | None = None) -> Sight:
    """Everything in these folders and below that looks like a model."""
    walk = _Walk(bounds or Bounds())
    for folder in folders:
        walk.through(folder)
    return walk.sight


class _Walk:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._seen: set[tuple[int, int]] = set()
        self.sight = Sight()

    def through(self, top: Path) -> None:
        """Breadth first, so that files near the top are found before a limit is reached."""
        waiting = deque([(top, 0)])
        while waiting:
            folder, depth = waiting.popleft()
            if self._bounds.are_reached():
                self.sight.unseen.append(f"The search of {top} stopped early, at {folder}: it contains too many files.")
                return
            inner = self._in(folder)
            if depth < self._bounds.deepest:
                waiting.extend((each, depth + 1) for each in inner)

    def _in(self, folder: Path) -> list[Path]:
        """Record the models of one folder and return its subfolders."""
        try:
            if self._was_seen(os.stat(folder)):
                return []
            names = sorted(os.listdir(folder))
        except OSError as problem:
            self.sight.unseen.append(f"{folder} cannot be read: {problem.strerror}.")
            return []
        self._bounds.entries -= len(names)
        if "config.json" in names and any(name.endswith(".safetensors") for name in names):
            self.sight.checkpoints.append(folder)
        return [folder / name for name in names if self._note(folder, name, names)]

    def _note(self, folder: Path, name: str, beside: list[str]) -> bool:
        """Record a model file; True for a folder to scan."""
        if name.startswith("."):
            return False
        path = folder / name
        try:
            seen = path.stat()
        except OSError:
            return False  # a broken link
        if stat.S_ISDIR(seen.st_mode):
            return True
        if stat.S_ISREG(seen.st_mode) and not any(f"{name}{end}" in beside for end in UNFINISHED):
            self._note_file(path, seen)
        return False

    def _note_file(self, path: Path, seen: os.stat_result) -> None:
        if path.suffix == ".gguf" and is_first_part(path.name) and not self._was_seen(seen):
            self.sight.ggufs.append(path)
        elif path.suffix == ".bin" and path.name.startswith("ggml-") and not self._was_seen(seen):
            self.sight.whispers.append(path)

    def _was_seen(self, what: os.stat_result) -> bool:
        identity = (what.st_dev, what.st_ino)
        was_seen = identity in self._seen
        self._seen.add(identity)
        return was_seen


def is_first_part(name: str) -> bool:
    part = PART.fullmatch(name)
    return part is None or int(part[2]) == 1


def paired(found: Sequence[Found]) -> list[Found]:
    """The models that can be used by themselves, each with its projector and draft."""
    projectors = [each for each in found if each.role is Role.PROJECTOR]
    drafts = [each for each in found if each.role is Role.DRAFT]
    models = [each for each in found if each.role not in (Role.PROJECTOR, Role.DRAFT)]
    return [_with_helpers(model, projectors, drafts) for model in models]


def _with_helpers(model: Found, projectors: Sequence[Found], drafts: Sequence[Found]) -> Found:
    if model.role is not Role.CHAT:
        return model
    projector = min((each for each in projectors if _fits(each, model)), key=_preference, default=None)
    draft = next((each for each in drafts if _drafts_for(each, model)), None)
    return replace(
        model,
        projector=projector.path if projector else model.projector,
        draft=draft.path if draft else None,
    )


def _fits(projector: Found, model: Found) -> bool:
    """In the same folder, and of the same width if it is known."""
    return projector.path.parent == model.path.parent and projector.width in (0, model.width)


def _drafts_for(draft: Found, model: Found) -> bool:
    """A draft needs its model's vocabulary, and helps only if it is much smaller."""
    is_beside = draft.path.parent == model.path.parent
    return is_beside and draft.vocabulary == model.vocabulary and draft.size * 2 < model.size


def _preference(projector: Found) -> tuple[int, int]:
    known = projector.quant in PREFERRED
    return PREFERRED.index(projector.quant) if known else len(PREFERRED), projector.size


class Named(Struct, frozen=True):
    name: str
    aliases: tuple[str, ...]
    model: Found


def named(models: Sequence[Found]) -> list[Named]:
    stems = [_typeable(model.stem) for model in models]
    names, shorter = _unique(stems), [_shorter(name) for name in stems]
    counts = Counter(shorter)
    taken = set(names)
    return [
        Named(name, (short,) if short and counts[short] == 1 and short not in taken else (), model)
        for name, short, model in zip(names, shorter, models, strict=True)
    ]


def names_in(folder: Path, models: Sequence[Found]) -> list[str]:
    """Files that would have the same name are named with their folders, all of them.

    Numbers would depend on the order: a file that appears later could take the name of another.
    """
    stems = [_typeable(model.stem) for model in models]
    counts = Counter(stems)
    places = [_typeable(f"{_place(folder, model)}/{model.stem}") for model in models]
    return _unique([stem if counts[stem] == 1 else place for stem, place in zip(stems, places, strict=True)])


def _place(folder: Path, model: Found) -> str:
    """The model's folder, relative to this one; of a file in this folder itself, its name."""
    inner = model.path.parent.relative_to(folder)
    return str(inner) if inner.parts else folder.absolute().name


def _typeable(stem: str) -> str:
    return re.sub("-{2,}", "-", UNFIT.sub("-", stem)).strip("-") or "model"


def _unique(candidates: Sequence[str]) -> list[str]:
    """The second of a name gets -2, and so on."""
    given: dict[str, None] = {}
    for candidate in candidates:
        given[next(name for name in _numbered(candidate) if name not in given)] = None
    return list(given)


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _shorter(name: str) -> str:
    """Lower case, without the number format and without Ollama's `latest`."""
    short = QUANT.sub("", name).removesuffix(":latest").lower()
    return "" if short == name else short
