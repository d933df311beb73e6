"""The text of a first configuration, with comments that explain each value."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.cli.fit import Fitted, fitted
from hotseat.config.units import size_text
from hotseat.model_files.file_kind import Engine, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.cli.memory_budget import Device
    from hotseat.identifiers import Bytes
    from hotseat.model_files.file_kind import Found
    from hotseat.model_files.search import Named

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


def count_text(number: int) -> str:
    for unit, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return str(number)
