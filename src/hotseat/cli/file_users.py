"""Which other models use a file, by their commands: a file that is in use is not deleted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.downloads.links import cached_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotseat.cli.known_models import KnownModel

BEFORE = r"(?:^|[\s='\":,;(]|\./)"
AFTER = r"(?![\w-])"


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
    return str(path) in text or bool(shorter and re.search(f"{BEFORE}(?:{shorter}){AFTER}", text, re.MULTILINE))


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
