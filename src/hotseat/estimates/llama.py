"""The estimate for llama-server: the model, its draft model, and the program itself.

Of each model: its weights, on a device or on the host, its cache, its compute buffer and its vocabulary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from hotseat.estimates.architecture import FLOAT, HALF, CacheRules, compute_size, dealt
from hotseat.estimates.gguf_architecture import anatomy_of
from hotseat.estimates.llama_flags import ALL, LlamaFlags
from hotseat.estimates.quants import BY_NAME
from hotseat.estimates.report import Backing, CannotEstimate, Estimate, Kind, Line, Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from hotseat.estimates.architecture import Anatomy
    from hotseat.estimates.command import Server
    from hotseat.estimates.gguf import Head, Tensor
    from hotseat.estimates.machine import Files, Gpu
    from hotseat.identifiers import Bytes

MIB = 1 << 20
LIBRARIES = 17 * MIB
USUAL_PROMPT_CACHE = 8192
# Measured with llama-server 0.7.0 (build 11669): what remains of its memory after subtracting everything below.
PROGRAM = 6 * MIB
PER_TOKEN, PER_MERGE = 170, 145
"""Bytes of a vocabulary's maps, for each token and each merge of two."""
BLOCK = re.compile(r"blk\.(\d+)\.")
EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
AMX = {"F16": 0, "Q4_0": 0, "Q4_1": 0, "Q8_0": 4, "Q4_K": 4, "Q5_K": 4, "Q6_K": 0, "IQ4_XS": 2}
"""Formats for Intel's AMX tiles, with the bytes that each block grows by."""
AVX2 = ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4")
AVX512 = (*AVX2, "Q2_K")
AMX_ROWS, AVX_ROWS = 32, 8
"""Matrices whose number of rows is not a multiple of this are not copied."""
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
"""Lookup tables, which are never multiplied."""


class Role(Enum):
    """The value is the prefix of its options' names."""

    MODEL = ""
    DRAFT = "draft_"


FILES = {Role.MODEL: ("model", "fetched"), Role.DRAFT: ("draft", "fetched_draft")}
NOT_FETCHED = "{} names a model that llama-server downloads itself: name its file with -m, or set memory manually"
ON_DEVICE = (
    "The driver's own memory on the device, a few hundred MiB with CUDA, is not included.",
    "Sizes on a device are calculated as on the host; they are not measured.",
)
PROMPT_CACHE = "llama-server also uses {} of host memory as a prompt cache (--cache-ram)."
PROJECTOR = "The working memory of the multimodal projector depends on the images and is not included."
FITTED = "-ngl is not set: without a GPU everything is in host memory, with one llama-server offloads what fits."


def llama_estimate(server: Server, files: Files, gpu: Gpu) -> Estimate:
    flags = LlamaFlags.parse(server.options, server.env)
    main = _part(server, files, flags, gpu, Role.MODEL)
    parts = [main]
    if flags.text("draft") or flags.text("fetched_draft"):
        parts.append(_part(server, files, flags, gpu, Role.DRAFT, main.context))
    lines = [line for part in parts for line in part.lines()]
    lines += _extras(server, files, flags, main)
    lines.append(Line("the program and its libraries", LIBRARIES, Kind.OVERHEAD, backing=Backing.MAPPED))
    return Estimate(tuple(line for line in lines if line.size), tuple(_notes(flags, parts)))


def _part(server: Server, files: Files, flags: LlamaFlags, gpu: Gpu, role: Role, context: int = 0) -> Part:
    """Only older versions let a draft have its own context; otherwise it has its model's."""
    path, fetched = (flags.text(what) for what in FILES[role])
    if path is None:
        raise CannotEstimate(NOT_FETCHED.format(fetched) if fetched else "no model file: -m FILE is missing")
    head = files.gguf(server.outside(path))
    model = anatomy_of(head, path)
    own = flags.number("draft_context", 0) if role is Role.DRAFT else flags.context(model.trained_context)
    return Part(path.rpartition("/")[2], head, model, flags, gpu, role, own or context, files.processor())


def _extras(server: Server, files: Files, flags: LlamaFlags, main: Part) -> Iterator[Line]:
    if path := flags.text("projector"):
        on_device = main.placement.uses_device and flags.is_on("projector_on_device", True)
        size = files.gguf(server.outside(path)).size
        where = Where.DEVICE if on_device else Where.HOST
        yield Line(f"projector {path.rpartition('/')[2]}", size, Kind.MMPROJ, where)
    for path in filter(None, (flags.text("adapters") or "").split(",")):
        where = Where.DEVICE if main.placement.uses_device else Where.HOST
        yield Line(f"adapter {path.rpartition('/')[2]}", files.gguf(server.outside(path)).size, Kind.WEIGHTS, where)


def _notes(flags: LlamaFlags, parts: list[Part]) -> Iterator[str]:
    for part in parts:
        yield from part.model.notes
    if any(part.placement.uses_device for part in parts):
        yield from ON_DEVICE
    elif flags.gpu_layers() is None and parts[0].gpu.is_unsaid:
        yield FITTED
    if flags.text("projector"):
        yield PROJECTOR
    prompt_cache = flags.number("prompt_cache", USUAL_PROMPT_CACHE)
    if prompt_cache:
        yield PROMPT_CACHE.format("any amount" if prompt_cache < 0 else f"up to {prompt_cache} MiB")


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


@dataclass(frozen=True, slots=True)
class Override:
    """`-ot pattern=buffer`: tensors whose names match go to that buffer."""

    pattern: re.Pattern[str]
    where: Where


@dataclass(frozen=True, slots=True)
class Placement:
    """Which tensors of a model are on a device and which on the host."""

    layers: int
    on_device: int
    """The last so many layers, where the output counts as one more layer after them."""
    host_experts: int = 0
    """The experts of the first so many layers stay on the host."""
    overrides: tuple[Override, ...] = ()

    @property
    def uses_device(self) -> bool:
        return self.on_device > 0

    def of_layer(self, number: int) -> Where:
        # Layers that predict further tokens are numbered after the last layer; they stay on the host if it does.
        number = min(number, self.layers)
        return Where.DEVICE if self.layers - self.on_device < number else Where.HOST

    def of_tensor(self, tensor: Tensor) -> Where:
        for override in self.overrides:
            if override.pattern.search(tensor.name):
                return override.where if self.uses_device else Where.HOST
        if tensor.name in LOOKED_UP:
            return Where.HOST
        block = BLOCK.match(tensor.name)
        number = int(block[1]) if block else self.layers
        if EXPERTS.search(tensor.name) and number < self.host_experts:
            return Where.HOST
        return self.of_layer(number)


def read_overrides(said: str) -> tuple[Override, ...]:
    """The overrides of `-ot`; a pattern that Python cannot compile is left out."""
    read = []
    for part in filter(None, said.split(",")):
        pattern, _, buffer = part.rpartition("=")
        try:
            read.append(Override(re.compile(pattern), Where.HOST if buffer.startswith("CPU") else Where.DEVICE))
        except re.error:
            continue
    return tuple(read)


def copied_size(tensor: Tensor, processor: Set[str]) -> Bytes:
    """Bytes of the copy of a matrix on a processor with these flags; 0 if none is made.

    Without a device, matrices whose format the processor's fastest kernels need in another order are copied when they
    are loaded. The file's own pages stay resident until the kernel reclaims them. Found with llama-server's own builds
    for each kind of x86 processor; other processors are not covered.
    """
    return 0 if tensor.name in LOOKED_UP else reordered_size(tensor, processor)


def reordered_size(tensor: Tensor, processor: Set[str]) -> Bytes:
    """The same for a matrix that is multiplied, whatever its name."""
    if len(tensor.shape) == 2 and "amx_int8" in processor and tensor.quant in AMX and not tensor.rows % AMX_ROWS:
        block = BY_NAME[tensor.quant.lower()]
        return tensor.size + tensor.size // block.block_size * AMX[tensor.quant]
    wanted = AVX512 if "avx512bw" in processor else AVX2 if "avx2" in processor else ()
    if len(tensor.shape) >= 2 and tensor.quant in wanted and not tensor.rows % AVX_ROWS:
        return tensor.size
    return 0
