"""The compute buffer of llama-server: what one micro-batch needs in the widest layer.

ggml puts the results of a whole graph into one buffer and reuses what is no longer needed, so the buffer is as large as
the peak. The peaks below were found by varying one number at a time on real servers; where the allocator finds a gap to
reuse, the buffer is smaller than estimated here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.estimates.architecture import Anatomy
    from hotseat.estimates.kv import CacheRules
    from hotseat.identifiers import Bytes

FLOAT = 4
HALF = 2
STREAM = 5
"""Copies of a token's numbers that are alive at the peak, beside what the layer itself works on."""


class Attention(Enum):
    """How attention is computed: in small tiles, or as one table of every head, token and cell."""

    FLASH = "flash"
    TABLE = "table"


def compute_size(model: Anatomy, cache: CacheRules, tokens: int, attention: Attention) -> Bytes:
    """Bytes of the compute buffer for micro-batches of so many tokens."""
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
