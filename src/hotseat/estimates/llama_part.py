"""One model within llama-server: its weights, its cache, its compute buffer and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from hotseat.estimates.compute import FLOAT, HALF, compute_size
from hotseat.estimates.kv import CacheRules, dealt
from hotseat.estimates.llama_flags import ALL, LlamaFlags
from hotseat.estimates.placement import Placement, read_overrides
from hotseat.estimates.repack import copied_size, reordered_size
from hotseat.estimates.report import Backing, Kind, Line, Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.estimates.architecture import Anatomy
    from hotseat.estimates.gguf import Head, Tensor
    from hotseat.estimates.machine import Gpu
    from hotseat.identifiers import Bytes

MIB = 1 << 20

# Measured with llama-server 0.7.0 (build 11669): what remains of its memory after subtracting everything below.
PROGRAM = 6 * MIB
PER_TOKEN, PER_MERGE = 170, 145
"""Bytes of a vocabulary's maps, for each token and each merge of two."""


class Role(Enum):
    """The value is the prefix of its options' names."""

    MODEL = ""
    DRAFT = "draft_"


@dataclass(frozen=True, slots=True)
class Part:
    """One model that the server runs: the main model, or the draft model for speculative decoding."""

    name: str
    head: Head
    model: Anatomy
    flags: LlamaFlags
    gpu: Gpu
    role: Role
    context: int
    """Tokens of all slots together."""
    processor: frozenset[str]

    def lines(self) -> Iterator[Line]:
        yield from self._weights()
        yield from self._cache_lines()
        yield from self._compute()
        vocabulary = self.model.vocabulary * (PER_TOKEN + FLOAT * self.flags.slots) + self.model.merges * PER_MERGE
        program = PROGRAM if self.role is Role.MODEL else 0
        yield Line(f"vocabulary and metadata{self._suffix}", program + vocabulary, Kind.OVERHEAD)

    @property
    def placement(self) -> Placement:
        flags, layers = self.flags, len(self.model.layers)
        is_main = self.role is Role.MODEL
        return Placement(
            layers=layers,
            on_device=min(self.gpu.layers(flags.gpu_layers(f"{self.role.value}gpu_layers")), layers + 1),
            host_experts=ALL if flags.is_on("experts_on_host", False) else flags.number("cpu_experts", 0),
            overrides=read_overrides(flags.text("overrides") or "") if is_main else (),
        )

    # Weights

    def _weights(self) -> Iterator[Line]:
        placement = self.placement
        placed = [(placement.of_tensor(tensor), tensor) for tensor in self.head.tensors]
        on_device = sum(tensor.size for where, tensor in placed if where is Where.DEVICE)
        yield Line(f"weights of {self.name}", on_device, self._kind(Kind.WEIGHTS), Where.DEVICE)
        yield from self._host_weights([tensor for where, tensor in placed if where is Where.HOST])

    def _host_weights(self, tensors: Sequence[Tensor]) -> Iterator[Line]:
        processor = self._reordering
        copies = [(tensor.size, copied_size(tensor, processor)) for tensor in tensors]
        copied = sum(copy for _, copy in copies) + self._output_copy()
        originals = sum(size for size, copy in copies if copy)
        as_they_are = sum(size for size, copy in copies if not copy)
        if not self.flags.is_mapped:
            yield self._weight_line("", copied + as_they_are, Backing.ANONYMOUS)
            return
        yield self._weight_line("", as_they_are, Backing.MAPPED)
        yield self._weight_line(", repacked for this CPU", copied, Backing.ANONYMOUS)
        yield self._weight_line(", in their original layout", originals, Backing.READ_ONCE)

    def _weight_line(self, which: str, size: Bytes, backing: Backing) -> Line:
        return Line(f"weights of {self.name}{which}", size, self._kind(Kind.WEIGHTS), backing=backing)

    @property
    def _reordering(self) -> frozenset[str]:
        """The processor features that llama-server uses to reorder weights: none if a device is used."""
        is_repacking = self.flags.is_on("repack", True) and not self.placement.uses_device
        return self.processor if is_repacking else frozenset()

    def _output_copy(self) -> Bytes:
        """A model without an output matrix uses its embedding, and llama-server makes a second copy of it for that."""
        tensors = {tensor.name: tensor for tensor in self.head.tensors}
        embedding = tensors.get("token_embd.weight")
        if embedding is None or "output.weight" in tensors:
            return 0
        return reordered_size(embedding, self._reordering)

    # Cache and compute buffer

    def _cache(self) -> CacheRules:
        flags = self.flags
        return CacheRules(
            cells=dealt(self.context, flags.slots, flags.unified),
            micro_batch=self._tokens(),
            keys=flags.quant(f"{self.role.value}cache_keys"),
            values=flags.quant(f"{self.role.value}cache_values"),
            windows_in_full=flags.is_on("windows_in_full", False),
        )

    def _tokens(self) -> int:
        return self.flags.micro_batch(self.context, f"{self.role.value}micro_batch")

    def _cache_lines(self) -> Iterator[Line]:
        cache, placement = self._cache(), self.placement
        on_device = self.flags.is_on("cache_on_device", True)
        placed = [
            (placement.of_layer(number) if on_device else Where.HOST, layer)
            for number, layer in enumerate(self.model.layers)
        ]
        what = f"cache of {cache.cells.all} tokens, {cache.keys.name.lower()} and {cache.values.name.lower()}"
        what = what if self.model.attends else f"states of {cache.cells.sequences} sequences"
        for where, layers in groupby(sorted(placed, key=lambda each: each[0].value), key=lambda each: each[0]):
            size = cache.size(layer for _, layer in layers)
            yield Line(f"{what}{self._suffix}", size, self._kind(Kind.KV), where)

    def _compute(self) -> Iterator[Line]:
        cache, tokens = self._cache(), self._tokens()
        size = compute_size(self.model, cache, tokens, self.flags.attention)
        what = f"compute buffers for {tokens} tokens at once{self._suffix}"
        if not self.placement.uses_device:
            yield Line(what, size, self._kind(Kind.COMPUTE))
            return
        # Input for the device is prepared on the host: the tokens' numbers and the mask.
        prepared = tokens * (FLOAT * self.model.width + HALF * cache.cells.each)
        yield Line(what, size, self._kind(Kind.COMPUTE), Where.DEVICE)
        yield Line(what, prepared, self._kind(Kind.COMPUTE))

    def _kind(self, kind: Kind) -> Kind:
        return kind if self.role is Role.MODEL else Kind.DRAFT

    @property
    def _suffix(self) -> str:
        return "" if self.role is Role.MODEL else " of the draft"
