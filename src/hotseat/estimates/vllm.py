"""The estimate for vLLM, a lower bound: vLLM fills a fixed share of each device with cache, whatever the model."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.estimates.report import CannotEstimate, Estimate, Kind, Line, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.estimates.command import Server
    from hotseat.estimates.machine import Files
    from hotseat.estimates.safetensors import Checkpoint
    from hotseat.identifiers import Bytes

USUAL_SHARE = 0.9
BLOCK = 16
"""Tokens per block of vLLM's cache."""
NARROW = ("fp8", "int8")

NO_MODEL = "no model is given: use `vllm serve FOLDER`"
SHARE = "vLLM takes {:.0%} of each of its {} (--gpu-memory-utilization), regardless of the model: plan with that."
LEAST = "The cache is the minimum for a start, one request of {} tokens; activations and graphs are not included."


def vllm_estimate(server: Server, files: Files) -> Estimate:
    words, options = _read(server.options)
    model = options.get("model") or (words[0] if words else None)
    if model is None:
        raise CannotEstimate(NO_MODEL)
    checkpoint = files.checkpoint(server.outside(model))
    devices = _devices(options)
    length = _length(options) or checkpoint.anatomy.trained_context
    share = _share(options)
    return Estimate(
        lines=(
            Line(f"weights of {model.rstrip('/').rpartition('/')[2]}", checkpoint.weights, Kind.WEIGHTS, Where.DEVICE),
            Line(f"cache of {length} tokens", _cache(checkpoint, length, options), Kind.KV, Where.DEVICE),
        ),
        notes=(
            SHARE.format(share, "devices" if devices == 1 else f"{devices} devices"),
            LEAST.format(length),
        ),
        device_share=share,
    )


def devices_of(server: Server) -> int:
    """How many devices it uses; CannotEstimate if an option is no number."""
    return _devices(_read(server.options)[1])


def _devices(options: Mapping[str, str]) -> int:
    return _number(options, "tensor-parallel-size", "tp") * _number(options, "pipeline-parallel-size", "pp")


def _cache(checkpoint: Checkpoint, length: int, options: Mapping[str, str]) -> Bytes:
    kept = options.get("kv-cache-dtype", "auto")
    number = 1 if kept.startswith(NARROW) else checkpoint.number
    blocks = -(-length // BLOCK)
    cells = sum((layer.keys + layer.values) for layer in checkpoint.anatomy.layers)
    return cells * number * blocks * BLOCK


def _length(options: Mapping[str, str]) -> int:
    """Also `32k` and `1M`, as vLLM reads them: lower case means thousands, upper case powers of two."""
    said = options.get("max-model-len", "0")
    factors = {"k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}
    factor = factors.get(said[-1:], 1)
    try:
        return max(int(float(said.rstrip("kKmM")) * factor), 0)
    except (ValueError, OverflowError):
        raise CannotEstimate(f"--max-model-len must be a number, not {said[:40]!r}") from None


def _share(options: Mapping[str, str]) -> float:
    said = options.get("gpu-memory-utilization", str(USUAL_SHARE))
    try:
        return min(max(float(said), 0.0), 1.0)
    except ValueError:
        raise CannotEstimate(f"--gpu-memory-utilization must be a number, not {said[:40]!r}") from None


def _number(options: Mapping[str, str], *names: str) -> int:
    said = next((options[name] for name in names if name in options), "1")
    if not said.isdigit() or int(said) < 1:
        raise CannotEstimate(f"--{names[0]} must be a number, not {said[:40]!r}")
    return int(said)


def _read(words: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The words before the first option, and the value of each option."""
    positional: list[str] = []
    options: dict[str, str] = {}
    for word, following in pairwise((*words, "")):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").replace("_", "-").partition("=")
            options[name] = value if equals else following
        elif not options:
            positional.append(word)
    return positional, options
