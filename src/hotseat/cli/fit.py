"""How a found model runs on this machine: its command, the longest context that fits, and the memory it takes.

The memory that models may use is that of GPUs with memory of their own, else the RAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.estimates.estimate import estimate
from hotseat.estimates.files import Disk
from hotseat.estimates.machine import Gpu
from hotseat.estimates.report import DRIVER, CannotEstimate, Where
from hotseat.identifiers import RAM
from hotseat.memory.machine import find_machine
from hotseat.model_files.file_kind import Engine, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.estimates.machine import Files
    from hotseat.identifiers import Bytes
    from hotseat.memory.machine import Machine
    from hotseat.model_files.file_kind import Found

CONTEXTS = (32768, 16384, 8192, 4096)
"""Long enough to start with; users who need more have the memory for it and raise it."""
EMBEDDED_AT_ONCE = 8192
ASSUMED = "its file does not specify the pooling type: mean is assumed"
UNREADABLE = "its memory use could not be read from its file"
ONLY = {Role.EMBEDDING: ("--embeddings",), Role.RERANK: ("--reranking",)}
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Fitted:
    options: tuple[str, ...]
    """Appended to the program's own arguments."""
    memory: Bytes | None
    """On one device, or over several without what each further one costs; None: unknown, or more than there is."""
    remark: str = ""
    context: int = 0
    """The longest that fits; 0: unknown, or none fits."""


def fitted(
    model: Found, devices: Sequence[Device], drafting: tuple[str, ...] = (), files: Files | None = None
) -> Fitted:
    """The longest reasonable context whose estimate fits as many devices as it takes; if none fits, the server decides.

    `drafting` are the options that this version of llama-server needs to use a draft model.
    """
    if model.engine is not Engine.LLAMA:
        return Fitted(_own_options(model), None)
    for context in _contexts(model):
        options = (*_llama_options(model, context, drafting), *_layers(devices))
        needed = _needed(options, devices, files or Disk(Path.cwd()))
        if needed is None:
            return Fitted(options, None, UNREADABLE)
        if fits_on(*needed, devices):
            return Fitted(options, needed[0], ASSUMED if _pooling(model) else "", context)
    options = _llama_options(model, _contexts(model)[-1], drafting)
    return Fitted(options, None, "larger than the available memory: it will be slow")


def budget(devices: Sequence[Device]) -> Bytes:
    """What models may use of all devices together."""
    return sum(device.memory - device.reserve for device in devices)


def fits_on(memory: Bytes, per_further: Bytes, devices: Sequence[Device]) -> bool:
    """On the largest devices first, and on as few as possible. CUDA uses one MIG slice (gpu0.1) per process."""
    sizes = sorted((device.memory - device.reserve for device in devices), reverse=True)
    most = 1 if any("." in device.name for device in devices) else len(sizes)
    return any(memory + number * per_further <= sum(sizes[: number + 1]) for number in range(most))


def _contexts(model: Found) -> list[int]:
    longest = model.trained_context or CONTEXTS[-1]
    if model.role in ONLY:
        return [min(longest, EMBEDDED_AT_ONCE)]
    return [context for context in CONTEXTS if context <= longest] or [longest]


def _llama_options(model: Found, context: int, drafting: tuple[str, ...]) -> tuple[str, ...]:
    words: tuple[str, ...] = ("-m", str(model.path), "-c", str(context))
    if model.projector:
        words = (*words, "--mmproj", str(model.projector))
    if model.draft:
        words = (*words, "-md", str(model.draft), *drafting)
    if model.role in ONLY:
        # An embedding model processes its input in one batch, so a batch must hold the longest text.
        words = (*words, *ONLY[model.role], *_pooling(model), "-b", str(context), "-ub", str(context))
    return words


def _pooling(model: Found) -> tuple[str, ...]:
    return ("--pooling", "mean") if model.role is Role.EMBEDDING and not model.says_pooling else ()


def _layers(devices: Sequence[Device]) -> tuple[str, ...]:
    return ("-ngl", "99") if any(device.is_gpu for device in devices) else ()


def _needed(options: tuple[str, ...], devices: Sequence[Device], files: Files) -> tuple[Bytes, Bytes] | None:
    """On the first device, and in addition on each further one; None: unknown."""
    has_gpu = any(device.is_gpu for device in devices)
    try:
        found = estimate(("llama-server", *options), files, gpu=Gpu.SOME if has_gpu else Gpu.NONE)
    except CannotEstimate:
        return None
    return (found.needed(Where.DEVICE) + DRIVER, found.per_further_device) if has_gpu else (found.needed(Where.HOST), 0)


def _own_options(model: Found) -> tuple[str, ...]:
    if model.engine is Engine.WHISPER:
        return ("-m", str(model.path), "--inference-path", "/v1/audio/transcriptions")
    context = next((each for each in CONTEXTS if each <= model.trained_context), model.trained_context)
    return (str(model.path), *(("--max-model-len", str(context)) if context else ()))


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    memory: Bytes
    label: str = ""

    @property
    def is_gpu(self) -> bool:
        return self.name != RAM

    @property
    def reserve(self) -> Bytes:
        """Memory left for the desktop or the driver on a GPU, and for everything else on the machine."""
        return min(self.memory // 8, GIB) if self.is_gpu else min(self.memory // 4, 4 * GIB)


def devices(machine: Machine | None = None) -> list[Device]:
    """A card that uses the machine's RAM has no budget of its own: the RAM is counted instead."""
    machine = machine or find_machine()
    labels, borrowers = machine.labels, machine.borrowers
    found = {name: Device(name, seen.total, labels[name]) for name, seen in machine.devices().items()}
    cards = [device for name, device in found.items() if device.is_gpu and name not in borrowers]
    return cards or [found[RAM]]
