"""The KV cache: one cell per token and layer, or one state per sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.estimates.quants import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.estimates.architecture import Layer
    from hotseat.estimates.quants import Quant
    from hotseat.identifiers import Bytes

PADDING = 256
"""llama-server rounds every cache up to this many cells."""
STATE = BY_NAME["f32"]


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
