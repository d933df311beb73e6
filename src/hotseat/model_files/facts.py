"""What the files of a configured model say about it, for lists of models. Read once, until a file changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hotseat.estimates.files import Disk, folders_in
from hotseat.estimates.gguf import CHAT_TEMPLATE, Long
from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import read_gguf
from hotseat.model_files.of_command import files_of
from hotseat.threads import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.estimates.gguf import Value
    from hotseat.identifiers import Bytes, ModelName, Seconds
    from hotseat.model_files.file_kind import Role

    Stamp: TypeAlias = tuple[str, int, Bytes]

log = logging.getLogger(__name__)

MOST_SHOWN = 1 << 16
"""Characters of the keys and values of one model."""
LOOK_S: Seconds = 5.0
"""For the files of one model."""
THINKING = ("<think>", "enable_thinking", "reasoning_effort")
"""What the chat templates of models that think contain."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    stamps: tuple[Stamp, ...]
    """Path, modification time in nanoseconds and size of each of its files."""
    role: Role
    family: str
    """As llama.cpp names the architecture."""
    parameters: int
    quant: str
    sees_images: bool
    uses_tools: bool
    thinks: bool
    keys: Mapping[str, Value] = field(repr=False)
    """Of its head, without arrays and long texts, as far as they fit into a response."""

    @property
    def size(self) -> Bytes:
        return sum(size for _, _, size in self.stamps)

    @property
    def modified_at(self) -> float:
        return max(time_ns for _, time_ns, _ in self.stamps) / 1e9


class FactsReader:
    def __init__(self) -> None:
        self._known: dict[tuple[Stamp, ...], ModelFacts | None] = {}

    def of_all(self, specs: Iterable[ModelSpec]) -> dict[ModelName, ModelFacts]:
        """Reads files: not for the event loop. Models whose files are missing, unknown or too slow are left out."""
        number = len(self._known)
        found = [(spec.name, self._in_time(spec)) for spec in specs]
        if len(self._known) > number:
            self._forget_former_files()
        return {name: facts for name, facts in found if facts is not None}

    def _in_time(self, spec: ModelSpec) -> ModelFacts | None:
        return within(LOOK_S, spec.name, folders_in(spec.recipe.argv), partial(self._of, spec))

    def _of(self, spec: ModelSpec) -> ModelFacts | None:
        files = files_of(spec.recipe.argv, dict(spec.recipe.env), Path.cwd())
        stamps = _stamps(path for paths in files.values() for path in paths) if "model" in files else ()
        if not stamps:
            return None
        try:
            return self._known[stamps]
        except KeyError:
            facts = self._known[stamps] = _read(files["model"][0], stamps, sees_images="projector" in files)
            return facts

    def _forget_former_files(self) -> None:
        """Another thread may do the same."""
        for stamps in list(self._known):
            files = [Path(file) for file, _, _ in stamps]
            if within(LOOK_S, files[0].name, files[0].parent, partial(_stamps, files)) != stamps:
                self._known.pop(stamps, None)


def _stamps(files: Iterable[Path]) -> tuple[Stamp, ...]:
    """Empty if a file is missing."""
    try:
        found = [(str(file), file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((file, status.st_mtime_ns, status.st_size) for file, status in found)


def _read(file: Path, stamps: tuple[Stamp, ...], *, sees_images: bool) -> ModelFacts | None:
    try:
        found, keys = read_gguf(file), Disk(Path.cwd()).gguf(str(file)).keys
    except CannotEstimate:
        return None
    except Exception:  # an unforeseen kind of file must not hide the other models
        log.exception("a model file could not be read file=%s", file)
        return None
    template = str(keys.get(CHAT_TEMPLATE, ""))
    return ModelFacts(
        stamps,
        found.role,
        str(keys.get("general.architecture", "")),
        found.parameters,
        found.quant,
        sees_images,
        uses_tools="tools" in template,
        thinks=any(word in template for word in THINKING),
        keys=_short(keys),
    )


def _short(keys: Mapping[str, Value]) -> dict[str, Value]:
    """What fits into a response, which a hostile file could make very long."""
    short = [(name, value) for name, value in keys.items() if name != CHAT_TEMPLATE and _is_short(value)]
    sizes = accumulate(len(name) + len(str(value)) for name, value in short)
    return dict(item for item, size in zip(short, sizes, strict=True) if size <= MOST_SHOWN)


def _is_short(value: Value) -> bool:
    return not isinstance(value, Long | tuple) and (not isinstance(value, float) or isfinite(value))
