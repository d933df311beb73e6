"""`hotseat rm`: deletes a model of the models folder, except files that another model uses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.cli.client import Refused
from hotseat.cli.local_models import FileUsers, known, mentions, models_in, refuse_another_machine, wait_until_gone
from hotseat.cli.problems import Problem, Unreachable, confirm
from hotseat.cli.queries import NOT_RUNNING, UNKNOWN, stopped
from hotseat.cli.tables import without_escapes
from hotseat.config.units import size_text
from hotseat.downloads.links import cached_files
from hotseat.estimates.files import parts_of
from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import Role, read_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotseat.cli.client import Server
    from hotseat.cli.local_models import Known, KnownModel, Places


@dataclass(frozen=True, slots=True)
class Removal:
    doomed: Sequence[Path]
    kept: Sequence[tuple[Path, str]]
    """Files that stay, and the model that uses each."""


def remove(name: str, places: Places, without_asking: bool) -> None:
    refuse_another_machine(places)
    everything = known(places)
    model = everything.resolve(name)
    folder = everything.folder
    if folder is None or not model.is_from_models_dir:
        raise Problem(f"{model.name} is not a file of modelsDir; remove it from {', '.join(everything.sources)}")
    file = file_of(model, folder)
    removal = planned(model, file, folder, everything)
    show(removal)
    if not without_asking:
        confirm(f"Delete {model.name}?", "nothing was deleted")
    stop(places.server, model.name)
    carry_out(removal, folder)
    wait_until_gone(places.server, file)
    print(f"{model.name} is removed")


def file_of(model: KnownModel, folder: Path) -> Path:
    """The file for which hotseat made this model; of an unknown server, the one that its command contains."""
    here = models_in(folder).values()
    named = model.files().get("model", ())[:1] or [file for file in here if mentions(model, file)]
    file = next((file for file in named if file in here), None)
    if file is None:
        raise Problem(f"the file of {model.name} is not in {folder}; nothing was deleted")
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise Problem(f"{file} is outside {folder}, in {file.parent.resolve()}; delete it there")
    return file


def planned(model: KnownModel, file: Path, folder: Path, everything: Known) -> Removal:
    """A link goes although another model uses the file that it leads to; then only that file stays."""
    users = FileUsers([other for other in everything.models.values() if other.name != model.name])
    if user := users.of(file):
        raise Problem(f"{user.name} uses {file}; {_advice(user, everything)} first")
    own = [*parts_of(file), *companions(file)]
    shared = {path.resolve() for path in linked(folder) if path not in own}
    doomed, kept = [], []
    for path in own:
        if user := users.of(path):
            kept.append((path, user.name))
            continue
        doomed.append(path)
        if user := users.of_content(path):
            kept.append((path.resolve(), user.name))
        elif path.resolve() not in shared:
            doomed += cached_files(path)
    return Removal(doomed, kept)


def _advice(user: KnownModel, everything: Known) -> str:
    if user.is_from_models_dir:
        return f"run `hotseat rm {user.name}`"
    return f"remove {user.name} from {', '.join(everything.sources)}"


def companions(file: Path) -> list[Path]:
    """Projectors and drafts beside the file, if no other model is beside them, even one that is still copied."""
    beside = sorted(set(file.parent.glob("*.gguf")) - set(parts_of(file)))
    found = [path for path in beside if _is_companion(path)]
    return found if found == beside else []


def _is_companion(path: Path) -> bool:
    try:
        return read_gguf(path).role in (Role.PROJECTOR, Role.DRAFT)
    except CannotEstimate:
        return False


def linked(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.gguf") if path.is_symlink())


def show(removal: Removal) -> None:
    for path in removal.doomed:
        size = "link" if path.is_symlink() else size_text(path.stat().st_size)
        print(without_escapes(f"deletes {path} ({size})"))
    for path, user in removal.kept:
        print(without_escapes(f"keeps {path}: {user} uses it"))


def stop(server: Server, name: str) -> None:
    """Unload the model if it runs; nothing answers, or it does not run: nothing to do."""
    try:
        print(stopped(server, name, force=False))
    except Unreachable:
        return
    except Refused as refused:
        if refused.status not in (NOT_RUNNING, UNKNOWN):
            raise


def carry_out(removal: Removal, folder: Path) -> None:
    try:
        for path in removal.doomed:
            path.unlink(missing_ok=True)
    except OSError as problem:
        raise Problem(f"{problem.filename} cannot be deleted: {problem.strerror}") from None
    parents = {parent for path in removal.doomed for parent in path.parents if parent.is_relative_to(folder)}
    for parent in sorted(parents, key=lambda parent: len(parent.parts), reverse=True):
        if parent != folder:
            with suppress(OSError):  # it is not empty
                parent.rmdir()
