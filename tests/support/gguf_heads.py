"""GGUF heads for tests: valid ones from the gguf package, and hostile ones assembled by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

from hotseat.estimates.gguf import Head, Tensor, Value, read_head
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.estimates.safetensors import Checkpoint

KEYS: dict[str, Value] = {
    "general.architecture": "llama",
    "llama.block_count": 4,
    "llama.context_length": 8192,
    "llama.embedding_length": 512,
    "llama.feed_forward_length": 1024,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
}
TENSORS = (
    Tensor("token_embd.weight", (512, 1024), "F16", 1 << 20),
    *(Tensor(f"blk.{n}.attn_q.weight", (512, 512), "F16", 1 << 19) for n in range(4)),
    Tensor("output.weight", (512, 1024), "F16", 1 << 20),
)


def head(**more: Value) -> Head:
    """A model of four layers; in the names of further keys two underscores stand for a dot."""
    return Head({**KEYS, **{f"llama.{key.replace('__', '.')}": value for key, value in more.items()}}, TENSORS)


@dataclass(frozen=True, slots=True)
class FoundModels:
    """In-memory model files of a test."""

    heads: Mapping[str, Head] = field(default_factory=lambda: {"m.gguf": head()})
    folders: Mapping[str, Checkpoint] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    def gguf(self, path: str) -> Head:
        if path not in self.heads:
            raise CannotEstimate(f"{path} cannot be read")
        return self.heads[path]

    def checkpoint(self, path: str) -> Checkpoint:
        return self.folders[path]

    def processor(self) -> frozenset[str]:
        return self.flags


def read_bytes(data: bytes) -> Head:
    return read_head(BytesIO(data), len(data), "m.gguf")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def array(key: str, kind: int, length: int, data: bytes = b"") -> bytes:
    return text(key) + struct.pack("<IIQ", 9, kind, length) + data


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def gguf_bytes(keys: list[bytes], tensors: list[bytes], data: int = 0, version: int = 3) -> bytes:
    """A file with these entries, followed by so many zero bytes."""
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join([*keys, *tensors])
    return start + bytes(-len(start) % 32 + data)
