"""A model in a folder: config.json has its architecture, the heads of its *.safetensors its size."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from hotseat.estimates.architecture import Anatomy, Experts, Latent, Layer
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes

LONGEST_HEAD = 100_000_000
"""The format's own limit."""

WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    anatomy: Anatomy
    weights: Bytes
    number: Bytes
    """Bytes of one number of the cache, unless the command line sets it."""


def weights_size(stream: BinaryIO, size: Bytes, name: str) -> Bytes:
    """Bytes of the tensors in one file, which must be complete."""
    start = stream.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(size - 8, LONGEST_HEAD):
        raise CannotEstimate(f"{name} has no valid header; is it a complete safetensors file?")
    head = _object(stream.read(length), name)
    ends = [_end(entry, name) for key, entry in head.items() if key != "__metadata__"]
    weights = max(ends, default=0)
    if weights > size - 8 - length:
        raise CannotEstimate(
            f"{name} is truncated: {weights - (size - 8 - length)} bytes are missing; download it again"
        )
    return weights


def _end(entry: Any, name: str) -> int:
    match entry:
        case {"data_offsets": [int(), int(end)]} if end >= 0:
            return end
    raise CannotEstimate(f"{name} has a tensor without offsets; is it a complete safetensors file?")


def checkpoint_of(config: bytes, weights: Bytes, name: str) -> Checkpoint:
    """The architecture in config.json, together with the size of the weights."""
    outer = _object(config, name)
    inner = outer.get("text_config")
    keys = {**outer, **inner} if isinstance(inner, dict) else outer
    number = WIDTHS.get(str(keys.get("torch_dtype") or keys.get("dtype")), 2)
    return Checkpoint(_anatomy(_Config(keys, name)), weights, number)


@dataclass(frozen=True, slots=True)
class _Config:
    keys: Mapping[str, Any]
    name: str

    def number(self, key: str, default: int | None = None) -> int:
        value = self.keys.get(key)
        value = default if value is None else value
        if isinstance(value, int) and value >= 0:
            return value
        raise CannotEstimate(f"{self.name} has no {key}; is it the configuration of a language model?")


def _anatomy(config: _Config) -> Anatomy:
    heads, width = config.number("num_attention_heads"), config.number("hidden_size")
    count = config.number("num_hidden_layers")
    if heads < 1 or not 0 < count < 4096:
        raise CannotEstimate(f"{config.name} has {count} layers with {heads} heads, which is implausible")
    head = config.number("head_dim", width // heads)
    used = config.number("num_experts_per_tok", 0)
    return Anatomy(
        architecture=str(config.keys.get("model_type", "unknown")),
        layers=tuple(_layer(config, number, heads, head) for number in range(count)),
        width=width,
        feed_forward=config.number("intermediate_size", 0),
        heads=heads,
        query=heads * head,
        trained_context=config.number("max_position_embeddings", 0),
        vocabulary=config.number("vocab_size", 0),
        experts=Experts(used, config.number("moe_intermediate_size", 0)) if used else None,
        latent=_latent(config),
    )


def _layer(config: _Config, number: int, heads: int, head: int) -> Layer:
    if latent := _latent(config):
        return Layer(keys=latent.cached)
    kv = config.number("num_key_value_heads", heads) * head
    kinds = config.keys.get("layer_types")
    slides = isinstance(kinds, list) and number < len(kinds) and kinds[number] == "sliding_attention"
    return Layer(kv, kv, config.number("sliding_window", 0) or None if slides else None)


def _latent(config: _Config) -> Latent | None:
    if not config.keys.get("kv_lora_rank"):
        return None
    rank, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim", 0)
    return Latent(rank, rank + rope, config.number("qk_nope_head_dim", 0) + rope, config.number("v_head_dim", 0))


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise CannotEstimate(f"{name} contains invalid JSON; is it complete?") from None
    if not isinstance(value, dict):
        raise CannotEstimate(f"{name} does not contain a JSON object; is it complete?")
    return value
