"""The architecture of a model in a GGUF file, from the keys that llama.cpp reads for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hotseat.estimates.architecture import Anatomy, Experts, Latent, Layer
from hotseat.estimates.gguf import Long
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.estimates.gguf import Head, Value


class Full(Enum):
    """Which layer of a period has full attention."""

    LAST = "last"
    FIRST = "first"


class Pattern(NamedTuple):
    period: int
    full: Full = Full.LAST
    window: int | None = None
    """Set if the architecture has its own, whatever the file says."""
    only_with: int | None = None
    """Set if only models with so many layers have windows at all."""


PATTERNS = {
    "gemma2": Pattern(2),
    "gemma3": Pattern(6),
    "gemma3n": Pattern(5),
    "gpt-oss": Pattern(2),
    "cohere2": Pattern(4),
    "olmo2": Pattern(4),
    "exaone4": Pattern(4, only_with=64),
    "exaone-moe": Pattern(4),
    "afmoe": Pattern(4),
    "plamo3": Pattern(8),
    "llama4": Pattern(4, window=8192),
    "smallthinker": Pattern(4, Full.FIRST, window=4096),
}
"""Which layers have a sliding window, as llama.cpp has it built in; newer files say it themselves. A test compares each
architecture here with the real llama-server.
"""
PLAIN = {"llama", "mistral3", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe"}
PLAIN |= {"gemma", "phi2", "phi3", "phimoe", "command-r", "granite", "granitemoe", "glm4", "glm4moe"}
PLAIN |= {"deepseek2", "olmo", "starcoder2", "gpt2", "gptneox", "falcon", "stablelm", "smollm3", "internlm2"}
PLAIN |= {"ernie4_5", "ernie4_5-moe"}
"""They have no windows in llama.cpp, even if their files mention one."""
CACHELESS = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert", "modern-bert"}
CACHELESS |= {"eurobert", "gemma-embedding", "t5encoder", "dream", "llada", "llada-moe", "rnd1"}
"""Models that process a text as a whole and cache nothing."""
BOTH_AT_ONCE = ("falcon-h1",)
"""Each layer has both attention and a recurrent state."""
INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
"""Every n-th layer has attention, if the file does not say which."""
SHARED_AFTER = {"gemma3n": 20}
"""Layers from here on use the caches of earlier layers."""
KNOWN = PLAIN | CACHELESS | {*PATTERNS, *BOTH_AT_ONCE, *INTERVALS, "gemma4", "step35", "mimo2"}
KNOWN |= {"mamba", "mamba2", "jamba", "granitehybrid", "nemotron_h", "lfm2", "lfm2moe", "rwkv6", "rwkv7"}
UNCOUNTED = {
    "attention.indexer.key_length": "the cache of its sparse attention's indexer is not counted",
    "kda.head_dim": "the states of its linear attention are counted by the general formula",
}


def anatomy_of(head: Head, name: str) -> Anatomy:
    """The model of the file called `name`; CannotEstimate if the file lacks keys."""
    keys = _Keys.of(head, name)
    return Anatomy(
        architecture=keys.architecture,
        layers=tuple(_layer(keys, number) for number in range(keys.layers)),
        width=keys.number("embedding_length"),
        feed_forward=max(keys.per_layer("feed_forward_length", 0), default=0),
        heads=max(keys.heads, default=0),
        query=max(keys.heads, default=0) * keys.key_length,
        trained_context=keys.number("context_length"),
        vocabulary=_vocabulary(head),
        merges=_length(head.keys.get("tokenizer.ggml.merges")),
        experts=_experts(keys),
        latent=_latent(keys),
        inner=keys.number("ssm.inner_size", 0),
        notes=tuple(_notes(keys)),
    )


@dataclass(frozen=True)
class _Keys:
    """The keys of one architecture, without its prefix. What each layer asks for is computed once, not per layer."""

    architecture: str
    name: str
    keys: Mapping[str, Value]

    @staticmethod
    def of(head: Head, name: str) -> _Keys:
        architecture = head.keys.get("general.architecture")
        if not isinstance(architecture, str):
            raise CannotEstimate(f"{name} does not specify its architecture; is it a model?")
        prefix = f"{architecture}."
        inner = {key.removeprefix(prefix): value for key, value in head.keys.items() if key.startswith(prefix)}
        return _Keys(architecture, name, inner)

    def has(self, key: str) -> bool:
        return key in self.keys

    def number(self, key: str, default: int | None = None) -> int:
        value = self.keys.get(key, default)
        if isinstance(value, int) and value >= 0:
            return int(value)
        raise CannotEstimate(f"{self.name} has no {self.architecture}.{key}; is it a complete model?")

    @cached_property
    def layers(self) -> int:
        """Without the layers that only predict further tokens: llama-server does not run them by default."""
        layers = self.number("block_count") - self.number("nextn_predict_layers", 0)
        if not 0 < layers < 4096:
            raise CannotEstimate(f"{self.name} has {layers} layers, which is implausible")
        return layers

    def per_layer(self, key: str, default: int) -> tuple[int, ...]:
        """One number per layer, whether the file has one for all or one for each."""
        value = self.keys.get(key, default)
        if isinstance(value, tuple) and len(value) >= self.layers:
            numbers = tuple(int(each) for each in value[: self.layers] if isinstance(each, int) and each >= 0)
            if len(numbers) == self.layers:
                return numbers
        return (self.number(key, default),) * self.layers

    @cached_property
    def heads(self) -> tuple[int, ...]:
        return self.per_layer("attention.head_count", 0)

    @cached_property
    def kv_heads(self) -> tuple[int, ...]:
        if self.has("attention.head_count_kv"):
            return self.per_layer("attention.head_count_kv", 0)
        return self.heads

    @cached_property
    def key_length(self) -> int:
        return self.number("attention.key_length", self._even_share())

    @cached_property
    def value_length(self) -> int:
        return self.number("attention.value_length", self._even_share())

    def _even_share(self) -> int:
        heads = max(self.heads, default=0)
        return self.number("embedding_length") // heads if heads else 0


def _notes(keys: _Keys) -> Iterator[str]:
    for key, said in UNCOUNTED.items():
        if keys.has(key):
            yield f"{keys.architecture}: {said}."
    if keys.architecture not in KNOWN:
        yield f'The architecture "{keys.architecture}" is unknown: its cache is estimated with the general formula.'


# Layers


def _layer(keys: _Keys, number: int) -> Layer:
    if keys.architecture in CACHELESS:
        return Layer()
    state = _state(keys) if _carries_state(keys, number) else 0
    if state and keys.architecture not in BOTH_AT_ONCE:
        return Layer(state=state)
    if number >= keys.layers - keys.number("attention.shared_kv_layers", 0):
        return Layer()
    if number >= SHARED_AFTER.get(keys.architecture, keys.layers):
        return Layer()
    window = window_of(keys.architecture, keys.keys, number, keys.layers)
    if _latent(keys):
        return Layer(keys=keys.key_length, window=window, state=state)
    key_length, value_length = _lengths(keys, window)
    heads = keys.kv_heads[number]
    return Layer(heads * key_length, heads * value_length, window, state)


def _lengths(keys: _Keys, window: int | None) -> tuple[int, int]:
    if window is None:
        return keys.key_length, keys.value_length
    return (
        keys.number("attention.key_length_swa", keys.key_length),
        keys.number("attention.value_length_swa", keys.value_length),
    )


def _carries_state(keys: _Keys, number: int) -> bool:
    if keys.has("wkv.head_size") or keys.architecture in BOTH_AT_ONCE:
        return True
    if not keys.has("ssm.inner_size") and not keys.has("shortconv.l_cache"):
        return False
    interval = keys.number("full_attention_interval", INTERVALS.get(keys.architecture, 0))
    if interval:
        return (number + 1) % interval != 0
    return not keys.kv_heads[number]


def _state(keys: _Keys) -> int:
    """The convolution's last columns and the state itself."""
    width = keys.number("embedding_length")
    if keys.has("wkv.head_size"):
        return width * (keys.number("token_shift_count", 2) + keys.number("wkv.head_size"))
    if keys.has("shortconv.l_cache"):
        return width * max(keys.number("shortconv.l_cache") - 1, 0)
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    columns = max(keys.number("ssm.conv_kernel") - 1, 0)
    return columns * (inner + 2 * keys.number("ssm.group_count", 0) * state) + inner * state


# The rest


def _latent(keys: _Keys) -> Latent | None:
    """Older files have no *_mla keys: llama-server caches them expanded, as the ordinary formula counts them."""
    if not keys.has("attention.kv_lora_rank") or not keys.has("attention.key_length_mla"):
        return None
    return Latent(
        rank=keys.number("attention.kv_lora_rank"),
        cached=keys.key_length,
        key=keys.number("attention.key_length_mla"),
        value=keys.number("attention.value_length_mla"),
    )


def _experts(keys: _Keys) -> Experts | None:
    used = keys.number("expert_used_count", 0)
    if not used:
        return None
    width = keys.number("expert_feed_forward_length", max(keys.per_layer("feed_forward_length", 0), default=0))
    return Experts(used, width)


def _vocabulary(head: Head) -> int:
    listed = _length(head.keys.get("tokenizer.ggml.tokens"))
    embedding = next((tensor for tensor in head.tensors if tensor.name == "token_embd.weight"), None)
    return listed or (embedding.rows if embedding else 0)


def _length(value: Value | None) -> int:
    if isinstance(value, Long):
        return value.length
    return len(value) if isinstance(value, tuple) else 0


def window_of(architecture: str, keys: Mapping[str, Value], layer: int, layers: int) -> int | None:
    """The window of one layer; None for full attention."""
    if architecture in PLAIN:
        return None
    pattern = PATTERNS.get(architecture)
    window = pattern.window if pattern and pattern.window else keys.get("attention.sliding_window")
    if not isinstance(window, int) or window < 1 or not _slides(pattern, keys, layer, layers):
        return None
    return window


def _slides(pattern: Pattern | None, keys: Mapping[str, Value], layer: int, layers: int) -> bool:
    declared = keys.get("attention.sliding_window_pattern")
    if isinstance(declared, tuple):
        return layer < len(declared) and bool(declared[layer])
    if pattern and pattern.only_with and pattern.only_with != layers:
        return False
    period = declared if isinstance(declared, int) else pattern.period if pattern else 1
    if not period:
        return True
    full = 0 if pattern and pattern.full is Full.FIRST else period - 1
    return layer % period != full
