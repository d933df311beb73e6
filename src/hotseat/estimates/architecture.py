"""The parts of a model that determine its memory: its layers, what each caches, and the largest computation in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.estimates.llama_flags import Attention
from hotseat.estimates.quants import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.estimates.quants import Quant
    from hotseat.identifiers import Bytes

PADDING = 256
"""llama-server rounds every cache up to this many cells."""
STATE = BY_NAME["f32"]
FLOAT = 4
HALF = 2
STREAM = 5
"""Copies of a token's numbers that are alive at the peak, beside what the layer itself works on."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer caches, in numbers, not in bytes."""

    keys: int = 0
    """Per token. A layer that uses another layer's cache has none."""
    values: int = 0
    window: int | None = None
    """A sliding window caches only the last tokens."""
    state: int = 0
    """Per sequence, independent of its length: the state of a recurrent layer."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: a compressed cache that is expanded for every head during computation."""

    rank: int
    cached: int
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Experts:
    used: int
    width: int


@dataclass(frozen=True, slots=True)
class Anatomy:
    architecture: str
    layers: tuple[Layer, ...]
    width: int
    """Numbers per token between two layers."""
    feed_forward: int
    heads: int
    query: int
    """Numbers per token in the queries of all heads."""
    trained_context: int
    vocabulary: int
    merges: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    inner: int = 0
    """Width within a recurrent layer."""
    notes: tuple[str, ...] = ()

    @property
    def attends(self) -> bool:
        return any(layer.keys for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Cells:
    """How many tokens a server can cache, and how they are divided among its slots."""

    each: int
    """In one cache."""
    streams: int
    """Caches: one for all slots, or one for each."""
    sequences: int

    @property
    def all(self) -> int:
        return self.each * self.streams


def dealt(context: int, slots: int, unified: bool) -> Cells:
    """The cells of a context of so many tokens in all."""
    whole = padded(context)
    if unified:
        return Cells(whole, 1, slots)
    return Cells(padded(whole // slots), slots, slots)


def padded(cells: int) -> int:
    return -(-cells // PADDING) * PADDING


def window_cells(window: int, cells: Cells, micro_batch: int) -> int:
    """Cells of one cache for a sliding window: the window of each sequence in it, and one micro-batch."""
    sequences = cells.sequences // cells.streams
    return padded(min(cells.each, window * sequences + micro_batch))


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How the command line configures the cache."""

    cells: Cells
    micro_batch: int
    keys: Quant
    values: Quant
    windows_in_full: bool = False

    def size(self, layers: Iterable[Layer]) -> Bytes:
        return sum(self._tokens(layer) + self._state(layer) for layer in layers)

    def _tokens(self, layer: Layer) -> Bytes:
        per_cell = self.keys.size(layer.keys) + self.values.size(layer.values)
        return per_cell * self.cells_of(layer) * self.cells.streams

    def cells_of(self, layer: Layer) -> int:
        if layer.window is None or self.windows_in_full:
            return self.cells.each
        return window_cells(layer.window, self.cells, self.micro_batch)

    def _state(self, layer: Layer) -> Bytes:
        return STATE.size(layer.state) * self.cells.sequences


def compute_size(model: Anatomy, cache: CacheRules, tokens: int, attention: Attention) -> Bytes:
    """Bytes of llama-server's compute buffer: what one micro-batch of so many tokens needs in the widest layer.

    ggml puts the results of a whole graph into one buffer and reuses what is no longer needed, so the buffer is as
    large as the peak. The peaks were found by varying one number at a time on real servers; where the allocator finds
    a gap to reuse, the buffer is smaller than estimated here.
    """
    cells = cache.cells.each if model.attends else 0
    per_token = FLOAT * max(_feed_forward(model), _attention(model, cells, attention), _recurrent(model))
    return tokens * (per_token + _masks(model, cache, attention))


def _feed_forward(model: Anatomy) -> int:
    if model.experts is None:
        return STREAM * model.width + 3 * model.feed_forward
    used = model.experts.used
    return max(STREAM * model.width + 3 * used * model.experts.width, (2 * used + 1) * model.width)


def _attention(model: Anatomy, cells: int, attention: Attention) -> int:
    if not model.attends:
        return 0
    table = cells * model.heads if attention is Attention.TABLE else 0
    if latent := model.latent:
        unfolded = latent.rank + latent.cached + latent.key + latent.value
        return STREAM * model.width + model.heads * unfolded + table
    cached = max(layer.keys for layer in model.layers)
    return STREAM * model.width + 2 * (model.query + cached) + table


def _recurrent(model: Anatomy) -> int:
    return model.width + 7 * model.inner


def _masks(model: Anatomy, cache: CacheRules, attention: Attention) -> Bytes:
    """Attention masks: one for each kind of cache, as wide as that cache."""
    number = HALF if attention is Attention.FLASH else FLOAT
    return number * sum({cache.cells_of(layer) for layer in model.layers if layer.keys})
