"""`hotseat init`: finds models and writes a configuration that runs them, with comments that explain each value."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.cli.fit import Fitted, devices, fitted
from hotseat.cli.problems import Problem
from hotseat.cli.tables import count_text, without_escapes
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.config.units import size_text
from hotseat.errors import did_you_mean
from hotseat.model_files.file_kind import Engine, LeftOut, Role
from hotseat.model_files.search import FoundModels, look
from hotseat.model_files.usual_folders import ollama_stores, usual_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.cli.fit import Device
    from hotseat.identifiers import Bytes
    from hotseat.model_files.file_kind import Found
    from hotseat.model_files.search import Named

UNFIT_FOR_YAML = ("${", "\n", "\r")
"""Characters of a path that a configuration would interpret."""
MOST_SHOWN = 10
HELP_S = 10.0
EXAMPLE = "ggml-org/gemma-3-1b-it-GGUF"
DOWNLOADS = "`hotseat init` without a folder searches the usual ones, and prepares for downloads if they have no models"
SPECULATING = ("--spec-type", "draft-simple")
MIB, GIB = 1 << 20, 1 << 30
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
YAML_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
MACROS = {Engine.LLAMA: "llama", Engine.VLLM: "vllm", Engine.WHISPER: "whisper"}
FIRST_WORDS = {
    Engine.LLAMA: "{} --host 127.0.0.1 --port ${{PORT}}",
    Engine.VLLM: "{} serve --host 127.0.0.1 --port ${{PORT}} --served-model-name ${{MODEL_ID}}",
    Engine.WHISPER: "{} --host 127.0.0.1 --port ${{PORT}}",
}
FURTHER = {
    Engine.LLAMA: (),
    Engine.VLLM: ("healthCheckTimeout: 15m # it compiles before it responds",),
    Engine.WHISPER: ("checkEndpoint: none # older versions have no /health",),
}
HEAD = """\
# Written by `hotseat init`. Edit it as you like, then run `hotseat check` and `hotseat reload`.
# All keys: `hotseat schema`, or docs/reference/configuration.md.

listen: 127.0.0.1:8080 # this machine only; others need apiKeys first

globalTTL: 30m # a model that is idle for this long is unloaded; 0: never

# With this line, what a llama-server has computed of long conversations is saved when its model is unloaded, so that it
# need not be computed again. It writes prompts to disk, to a private folder below ~/.cache/hotseat. They are removed
# when hotseat ends.
# conversations: on
"""
PULLED = "~/models"
PULLED_CONTEXT = 16384
TOGETHER = "Models run concurrently as long as they fit into this memory; idle models are unloaded first."
CHOSEN = "With gpus: auto, hotseat runs each model on as few GPUs as it fits on, wherever there is memory."


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


@dataclass(frozen=True, slots=True)
class Draft:
    models: Sequence[Named]
    devices: Sequence[Device]
    programs: Mapping[Engine, str]
    drafting: tuple[str, ...] = ()
    """Options that this version of llama-server needs to use a draft model."""


def text_of(draft: Draft) -> str:
    models = ["models:", *_models(draft)] if draft.models else [*_models_dir(draft)]
    return "\n".join([HEAD, *_devices(draft.devices), "", *_macros(draft), "", *models]) + "\n"


def _devices(devices: Sequence[Device]) -> Iterator[str]:
    yield f"# {TOGETHER}"
    if len(devices) > 1:
        yield f"# {CHOSEN}"
    yield "devices:"
    for device in devices:
        label = f" # {device.label}" if device.label else ""
        yield f"  {device.name}: {{memory: {_down(device.memory)}, reserve: {_down(device.reserve)}}}{label}"


def _macros(draft: Draft) -> Iterator[str]:
    yield "macros:"
    for engine in dict.fromkeys(named.model.engine for named in draft.models) or (Engine.LLAMA,):
        program = shlex.quote(draft.programs.get(engine, engine.value))
        yield f"  {MACROS[engine]}: {json.dumps(FIRST_WORDS[engine].format(program), ensure_ascii=False)}"


def _models_dir(draft: Draft) -> Iterator[str]:
    """For a machine without models: those that will be downloaded."""
    layers = " -ngl 99" if any(device.is_gpu for device in draft.devices) else ""
    yield "# Every GGUF file of this folder is a model; `hotseat pull` downloads models to it."
    yield "modelsDir:"
    yield f"  path: {PULLED}"
    yield f"  cmd: ${{llama}} -m ${{MODEL_PATH}} ${{MMPROJ}} -c {PULLED_CONTEXT}{layers}"
    yield from (f"  {line}" for line in _gpus(draft.devices))


def _models(draft: Draft) -> Iterator[str]:
    for named in draft.models:
        fit = fitted(named.model, draft.devices, draft.drafting)
        yield f"  {_key(named.name)}:"
        yield from (f"    {line}" for line in (*_remarks(named.model, fit), *_settings(named, fit, draft.devices)))


def _remarks(model: Found, fit: Fitted) -> Iterator[str]:
    facts = [model.role.value if model.role is not Role.CHAT else "", size_text(model.size), model.quant]
    if model.parameters:
        facts.append(f"{count_text(model.parameters)} parameters")
    if model.trained_context:
        facts.append(f"trained on {model.trained_context} tokens")
    yield f"# {', '.join(filter(None, facts))}"
    if fit.remark:
        yield f"# {fit.remark}"


def _settings(named: Named, fit: Fitted, devices: Sequence[Device]) -> Iterator[str]:
    engine = named.model.engine
    yield "cmd: |"
    yield f"  ${{{MACROS[engine]}}}"
    yield f"  {shlex.join(fit.options)}"
    if named.aliases:
        yield f"aliases: [{', '.join(map(_key, named.aliases))}]"
    if fit.memory is not None:
        size = _up(fit.memory)
        yield f"memory: {size}" if len(devices) > 1 else f"memory: {{{devices[0].name}: {size}}}"
    yield from _gpus(devices)
    yield from FURTHER[engine]


def _gpus(devices: Sequence[Device]) -> tuple[str, ...]:
    """Several devices are GPUs: the RAM is only listed alone."""
    return ("gpus: auto",) if len(devices) > 1 else ()


def _key(name: str) -> str:
    return name if PLAIN.fullmatch(name) and name.lower() not in YAML_WORDS else json.dumps(name, ensure_ascii=False)


def _up(size: Bytes) -> str:
    return f"{-(-size // MIB)}MiB"


def _down(size: Bytes) -> str:
    return f"{size // GIB}GiB" if size % GIB == 0 else f"{size // MIB}MiB"
