"""`hotseat init`: finds models and writes a configuration that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.cli.config_text import Draft, text_of
from hotseat.cli.memory_budget import devices
from hotseat.cli.problems import Problem
from hotseat.cli.tables import without_escapes
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.errors import did_you_mean
from hotseat.model_files.found import Engine, LeftOut
from hotseat.model_files.search import Shelf, look
from hotseat.model_files.usual_folders import ollama_stores, usual_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.model_files.found import Found

UNFIT_FOR_YAML = ("${", "\n", "\r")
"""Characters of a path that a configuration would interpret."""
MOST_TOLD = 10
HELP_S = 10.0
SPECULATING = ("--spec-type", "draft-simple")


@dataclass(frozen=True, slots=True)
class Wishes:
    folders: Sequence[Path]
    """Empty: the usual folders."""
    target: Path
    force: bool = False


def init(wishes: Wishes, only_print: bool) -> None:
    if wishes.target.exists() and not (wishes.force or only_print):
        raise Problem(f"{wishes.target} exists; --force overwrites it, --print shows what would be written")
    text, shelf, programs = draft(wishes, os.environ)
    if only_print:
        print(text, end="")
        print(*remarks(shelf), sep="\n", file=sys.stderr)
        return
    write(text, wishes)
    print(summary(shelf, programs, wishes.target))


def draft(wishes: Wishes, env: Mapping[str, str]) -> tuple[str, Shelf, Mapping[Engine, str]]:
    """The text of a configuration, the models it was made from, and the programs that were found."""
    for folder in wishes.folders:
        must_be_folder(folder)
    home = Path(env.get("HOME") or Path.home())
    folders = [folder.absolute() for folder in wishes.folders] or usual_folders(env, home)
    stores = [] if wishes.folders else ollama_stores(env, home)
    programs = {engine: found for engine in Engine if (found := shutil.which(engine.value, path=env.get("PATH")))}
    shelf = runnable(look(folders, stores), programs)
    if not shelf.models:
        raise Problem(nothing_found([*folders, *stores], shelf))
    drafting = drafting_options(programs) if any(named.model.draft for named in shelf.models) else ()
    return text_of(Draft(shelf.models, devices(), programs, drafting)), shelf, programs


def drafting_options(programs: Mapping[Engine, str]) -> tuple[str, ...]:
    """Newer versions load a draft but use it only if told its type; older ones do not know the option."""
    if Engine.LLAMA not in programs:
        return ()
    try:
        told = subprocess.run(
            [programs[Engine.LLAMA], "--help"], capture_output=True, text=True, timeout=HELP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return SPECULATING if SPECULATING[0] in told.stdout else ()


def must_be_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
    raise Problem(f"{folder} is not a folder.{did_you_mean(folder.name, beside)}")


def runnable(shelf: Shelf, programs: Mapping[Engine, str]) -> Shelf:
    """Leave out models that a configuration could not run; a missing llama-server may be installed later."""
    obstacles = {named.name: obstacle(named.model, programs) for named in shelf.models}
    left_out = [LeftOut(each.model.path, why) for each in shelf.models if (why := obstacles[each.name])]
    kept = [named for named in shelf.models if not obstacles[named.name]]
    return replace(shelf, models=kept, left_out=[*shelf.left_out, *left_out])


def obstacle(model: Found, programs: Mapping[Engine, str]) -> str:
    if model.engine is not Engine.LLAMA and model.engine not in programs:
        return f"{model.path} needs {model.engine.value}, which is not on PATH"
    if any(sign in str(model.path) for sign in UNFIT_FOR_YAML):
        return f"{str(model.path)!r} cannot be written in a configuration"
    return ""


def nothing_found(places: Sequence[Path], shelf: Shelf) -> str:
    looked = ", ".join(map(str, places)) or "no folder, because none of the usual ones exists"
    why = "".join(f"\n  {told}" for told in remarks(shelf))
    return f"no models found; searched {looked}. Name the folder with your models: hotseat init FOLDER{why}"


# Writing


def write(text: str, wishes: Wishes) -> None:
    """Write the whole file atomically: it is valid, or it stays as it was."""
    target = wishes.target
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
        complaints = "\n".join(map(str, error.complaints))
        raise Problem(f"the generated configuration is invalid; please report this:\n{complaints}") from None


# Summary


def summary(shelf: Shelf, programs: Mapping[Engine, str], target: Path) -> str:
    roles = Counter(named.model.role.value for named in shelf.models)
    counted = ", ".join(f"{number} {role}" for role, number in roles.items())
    models = f"{len(shelf.models)} model{'s'[: len(shelf.models) > 1]}"
    told = [f"{target}: {models} ({counted})", *(f"  {named.name}" for named in shelf.models[:MOST_TOLD])]
    if len(shelf.models) > MOST_TOLD:
        told.append(f"  and {len(shelf.models) - MOST_TOLD} more")
    told += remarks(shelf)
    if Engine.LLAMA not in programs and any(named.model.engine is Engine.LLAMA for named in shelf.models):
        told.append("llama-server is not on PATH: install it, or set its path under macros in the file")
    return "\n".join(without_escapes(line) for line in [*told, f"next: hotseat serve{config_option(target)}"])


def remarks(shelf: Shelf) -> Iterator[str]:
    for left in shelf.left_out[:MOST_TOLD]:
        yield f"skipped: {left.why}"
    if len(shelf.left_out) > MOST_TOLD:
        yield f"skipped: {len(shelf.left_out) - MOST_TOLD} more"
    yield from shelf.unseen


def config_option(target: Path) -> str:
    return "" if str(target) == "config.yaml" else f" --config {target}"
