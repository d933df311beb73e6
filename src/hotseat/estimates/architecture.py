"""The parts of a model that determine its memory: its layers and what each caches per token or per sequence."""

from __future__ import annotations

from dataclasses import dataclass


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
