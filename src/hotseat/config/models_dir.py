"""Makes one model for each file of `modelsDir` from its template. Works on plain values, before macros."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from hotseat.catalog.template import fill_hole, holes, sealed
from hotseat.model_files.folder import projector_beside
from hotseat.threads import within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.config.document import Document
    from hotseat.config.problems import Path, Problems
    from hotseat.identifiers import Seconds

KEY, PATH, MODEL_PATH = "modelsDir", "path", "MODEL_PATH"
MMPROJ = "MMPROJ"
"""In a command: the option for the projector beside the model, or nothing."""
LOOK_S: Seconds = 5.0
"""If the disk takes longer, nothing is said of the folder."""

Fact = TypeVar("Fact")

Offer: TypeAlias = "Callable[[FilePath], Mapping[str, FilePath]]"
"""Lists the models of a folder, by name."""


def folder_of(value: Mapping[str, Any]) -> FilePath | None:
    """The folder that a document names, if any."""
    match value.get(KEY):
        case {"path": str(path)}:
            return FilePath(path).expanduser()
    return None


def with_files(document: Document, offer: Offer, problems: Problems) -> Document:
    """Add a model for each file; a model of that name under `models` takes precedence."""
    template = document.value.get(KEY)
    written = document.value.get("models", {})
    if not isinstance(template, dict) or not isinstance(written, dict):
        return document
    folder = folder_of(document.value)
    _check(document.value, folder, problems)
    offered = offer(folder) if folder else {}
    files = {name: file for name, file in offered.items() if name not in written and _can_be_said(file, problems)}
    models = {name: _model(template, file) for name, file in files.items()}
    # The rest of the template is checked like a model, even while the folder is empty.
    checked = {**template, **_model(template, FilePath(MODEL_PATH))}
    value = {**document.value, "models": {**written, **models}, KEY: checked}
    return replace(
        document,
        value=value,
        spots={**document.spots, **_of_models(document.spots, models)},
        variables={**document.variables, **_of_models(document.variables, models)},
    )


def _check(value: Mapping[str, Any], folder: FilePath | None, problems: Problems) -> None:
    command = value[KEY].get("cmd")
    if isinstance(command, str) and MODEL_PATH not in holes(command):
        problems.error((KEY, "cmd"), "must contain ${MODEL_PATH}, otherwise all models would be the same")
    if "startPort" in value:
        problems.error(("startPort",), "depends on the number of models, which modelsDir changes", "Remove startPort")
    if folder and within(LOOK_S, str(folder), folder, folder.is_dir) is False:
        problems.warn((KEY, PATH), f"the folder {folder} does not exist yet")


def _can_be_said(file: FilePath, problems: Problems) -> bool:
    can = "${" not in str(file)
    if not can:
        problems.warn((KEY, PATH), f"{file.name} is skipped: ${{ is reserved for macros", "Rename the file")
    return can


def _model(template: Mapping[str, Any], file: FilePath) -> dict[str, Any]:
    model = {key: _filled(part, sealed(str(file))) for key, part in template.items() if key != PATH}
    command = model.get("cmd")
    if isinstance(command, str) and MMPROJ in holes(command):
        projector = projector_beside(file)
        model["cmd"] = fill_hole(command, MMPROJ, f"--mmproj {sealed(str(projector))}" if projector else "")
    return model


def _filled(part: Any, path: str) -> Any:
    if isinstance(part, dict):
        return {key: _filled(member, path) for key, member in part.items()}
    if isinstance(part, list):
        return [_filled(item, path) for item in part]
    return fill_hole(part, MODEL_PATH, path) if isinstance(part, str) else part


def _of_models(facts: Mapping[Path, Fact], models: Mapping[str, Any]) -> dict[Path, Fact]:
    """The facts about the template, such as its position, for each model made from a file."""
    template = {path[1:]: fact for path, fact in facts.items() if path[0] == KEY}
    return {("models", name, *path): fact for name in models for path, fact in template.items()}
