"""What a model is made of, as far as memory is concerned: its layers and what each keeps for a token or a sequence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer remembers, counted in numbers, not in bytes."""

    keys: int = 0
    """Per token. Layers that look into another layer's cache have none."""
    values: int = 0
    window: int | None = None
    """A sliding window remembers only the last tokens."""
    state: int = 0
    """Per sequence, however long it is: what a recurrent layer carries along."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: a compressed cache that is unfolded for every head while it computes."""

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
