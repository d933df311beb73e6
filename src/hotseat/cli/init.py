"""`hotseat init`: finds models and writes a configuration that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.cli.config_text import PULLED, Draft, text_of
from hotseat.cli.memory_budget import devices
from hotseat.cli.problems import Problem
from hotseat.cli.tables import without_escapes
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.errors import did_you_mean
from hotseat.model_files.file_kind import Engine, LeftOut, Role
from hotseat.model_files.search import FoundModels, look
from hotseat.model_files.usual_folders import ollama_stores, usual_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.model_files.file_kind import Found

UNFIT_FOR_YAML = ("${", "\n", "\r")
"""Characters of a path that a configuration would interpret."""
MOST_SHOWN = 10
HELP_S = 10.0
EXAMPLE = "ggml-org/gemma-3-1b-it-GGUF"
DOWNLOADS = "`hotseat init` without a folder searches the usual ones, and prepares for downloads if they have no models"
SPECULATING = ("--spec-type", "draft-simple")


@dataclass(frozen=True, slots=True)
class InitOptions:
    folders: Sequence[Path]
    """Empty: the usual folders."""
    target: Path
    force: bool = False


def init(options: InitOptions, only_print: bool) -> None:
    if options.target.exists() and not (options.force or only_print):
        raise Problem(f"{options.target} exists; --force overwrites it, --print shows what would be written")
    text, found_models, programs = draft(options, os.environ)
    if only_print:
        print(text, end="")
        print(*remarks(found_models), sep="\n", file=sys.stderr)
        return
    write(text, options)
    if not found_models.models:
        Path(PULLED).expanduser().mkdir(parents=True, exist_ok=True)
    print(summary(found_models, programs, options.target))


def draft(options: InitOptions, env: Mapping[str, str]) -> tuple[str, FoundModels, Mapping[Engine, str]]:
    """The text of a configuration, the models it was made from, and the programs that were found."""
    for folder in options.folders:
        must_be_folder(folder)
    home = Path(env.get("HOME") or Path.home())
    folders = [folder.absolute() for folder in options.folders] or usual_folders(env, home)
    stores = [] if options.folders else ollama_stores(env, home)
    programs = {engine: found for engine in Engine if (found := shutil.which(engine.value, path=env.get("PATH")))}
    found_models = runnable(look(folders, stores), programs)
    if options.folders and not found_models.models:
        raise Problem(nothing_found([*folders, *stores], found_models))
    drafting = drafting_options(programs) if any(named.model.draft for named in found_models.models) else ()
    return text_of(Draft(found_models.models, devices(), programs, drafting)), found_models, programs


def drafting_options(programs: Mapping[Engine, str]) -> tuple[str, ...]:
    """Newer versions load a draft but use it only if told its type; older ones do not know the option."""
    if Engine.LLAMA not in programs:
        return ()
    try:
        completed = subprocess.run(
            [programs[Engine.LLAMA], "--help"], capture_output=True, text=True, timeout=HELP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return SPECULATING if SPECULATING[0] in completed.stdout else ()


def must_be_folder(folder: Path) -> None:
    if os.path.isdir(folder):
        return
    try:
        beside = [each.name for each in os.scandir(folder.parent) if each.is_dir()]
    except OSError:
        beside = []
    raise Problem(f"{folder} is not a folder.{did_you_mean(folder.name, beside) or f' {DOWNLOADS}'}")


def runnable(found_models: FoundModels, programs: Mapping[Engine, str]) -> FoundModels:
    """Leave out models that a configuration could not run; a missing llama-server may be installed later."""
    obstacles = {named.name: obstacle(named.model, programs) for named in found_models.models}
    left_out = [LeftOut(each.model.path, why) for each in found_models.models if (why := obstacles[each.name])]
    kept = [named for named in found_models.models if not obstacles[named.name]]
    return replace(found_models, models=kept, left_out=[*found_models.left_out, *left_out])


def obstacle(model: Found, programs: Mapping[Engine, str]) -> str:
    if model.engine is not Engine.LLAMA and model.engine not in programs:
        return f"{model.path} needs {model.engine.value}, which is not on PATH"
    if any(sign in str(model.path) for sign in UNFIT_FOR_YAML):
        return f"{str(model.path)!r} cannot be written in a configuration"
    return ""


def nothing_found(places: Sequence[Path], found_models: FoundModels) -> str:
    looked = ", ".join(map(str, places))
    why = "".join(f"\n  {remark}" for remark in remarks(found_models))
    return f"no models found; searched {looked}. Name the folder with your models; {DOWNLOADS}{why}"


# Writing


def write(text: str, options: InitOptions) -> None:
    """Write the whole file atomically: it is valid, or it stays as it was."""
    target = options.target
    try:
        with tempfile.TemporaryDirectory(prefix=".hotseat-init-", dir=target.parent) as folder:
            fresh = Path(folder, target.name)
            fresh.write_text(text, encoding="utf-8")
            must_be_valid(fresh)
            fresh.replace(target)
    except OSError as error:
        raise Problem(f"{target} cannot be written: {error.strerror}") from None


def must_be_valid(file: Path) -> None:
    try:
        read([file], environ=os.environ)
    except ConfigError as error:
        problems = "\n".join(map(str, error.problems))
        raise Problem(f"the generated configuration is invalid; please report this:\n{problems}") from None


# Summary


def summary(found_models: FoundModels, programs: Mapping[Engine, str], target: Path) -> str:
    roles = Counter(named.model.role.value for named in found_models.models)
    counted = ", ".join(f"{number} {role}" for role, number in roles.items())
    models = f"{len(found_models.models)} model{'s'[: len(found_models.models) > 1]}"
    if not found_models.models:
        models, counted = "no models yet", f"hotseat pull and hotseat run download them to {PULLED}"
    lines = [f"{target}: {models} ({counted})", *(f"  {named.name}" for named in found_models.models[:MOST_SHOWN])]
    if len(found_models.models) > MOST_SHOWN:
        lines.append(f"  and {len(found_models.models) - MOST_SHOWN} more")
    lines += remarks(found_models)
    engines = {named.model.engine for named in found_models.models} or {Engine.LLAMA}
    if Engine.LLAMA in engines and Engine.LLAMA not in programs:
        lines.append("llama-server is not on PATH: install it, or set its path under macros in the file")
    lines.append(f"next: hotseat serve{config_option(target)}")
    if model := first_to_run(found_models):
        lines.append(f"then, in another terminal: hotseat run {model}")
    return "\n".join(map(without_escapes, lines))


def first_to_run(found_models: FoundModels) -> str:
    """Empty: there are models, but none for a chat."""
    if not found_models.models:
        return f"ORG/REPO, for example {EXAMPLE}"
    return next((named.name for named in found_models.models if named.model.role is Role.CHAT), "")


def remarks(found_models: FoundModels) -> Iterator[str]:
    for left in found_models.left_out[:MOST_SHOWN]:
        yield f"skipped: {left.why}"
    if len(found_models.left_out) > MOST_SHOWN:
        yield f"skipped: {len(found_models.left_out) - MOST_SHOWN} more"
    yield from found_models.unseen


def config_option(target: Path) -> str:
    return "" if str(target) == "config.yaml" else f" --config {target}"
