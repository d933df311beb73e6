"""Reads the head of a GGUF file (versions 2 and 3): its keys and the list of its tensors, never the tensors.

Model files are untrusted. Every length is compared with the rest of the file before anything is read, long values are
skipped, and what is kept has a limit: a hostile head costs neither memory nor time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from hotseat.estimates.quants import QUANTS
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32

LONGEST_NAME = 65_535
LONGEST_TEXT = 4_096
"""Longer texts are licences and the like, which nobody needs."""
CHAT_TEMPLATE, LONGEST_TEMPLATE = "tokenizer.chat_template", 1 << 18
"""It shows whether a model can use tools; the longest have some ten thousand characters."""
LONGEST_ARRAY = 4_096
"""Longer arrays are vocabularies, of which only the length counts; one entry per layer fits well."""
MOST_TEXTS = 4_000_000
"""In the arrays of one head together; the largest vocabularies have a million with their merges."""
MOST_LISTED = 20_000
"""Keys, and tensors: the largest models have two thousand."""
MOST_KEPT: Bytes = 4 << 20
ENTRY: Bytes = 8
"""Of an array, in memory."""
MOST_DIMENSIONS = 4

BLOCK = 1 << 18
LENGTH = struct.Struct("<Q")

TEXT, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class Long:
    """A value that was skipped: only its length is known."""

    length: int


Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = Scalar | tuple[Scalar, ...] | Long


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    """The length of a row first, as in ggml."""
    quant: str
    size: Bytes

    @property
    def rows(self) -> int:
        return self.shape[1] if len(self.shape) > 1 else 1


@dataclass(frozen=True, slots=True)
class Head:
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> Bytes:
        return sum(tensor.size for tensor in self.tensors)


def read_head(stream: BinaryIO, size: Bytes, name: str) -> Head:
    """The head of the file called `name`; CannotEstimate says what is wrong with it."""
    cursor = _Cursor(stream, size, name)
    if cursor.take(4) != MAGIC:
        raise cursor.broken("does not begin like a GGUF file")
    version = cursor.number("I")
    if version not in VERSIONS:
        raise cursor.broken(f"has version {version}, but only 2 and 3 (little-endian) are supported")
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    cursor.expect(key_count, least=13, what="keys", most=MOST_LISTED)
    keys = dict(_key(cursor) for _ in range(key_count))
    cursor.expect(tensor_count, least=24, what="tensors", most=MOST_LISTED)
    listed = [_listed(cursor) for _ in range(tensor_count)]
    return Head(keys, _sized(cursor, listed, keys.get("general.alignment", ALIGNMENT)))


class _Cursor:
    """A position in the file that refuses reads beyond its end."""

    def __init__(self, stream: BinaryIO, size: Bytes, name: str) -> None:
        self._stream = stream
        self._name = name
        self.size = size
        self.at = 0
        self._texts = self._kept = 0

    def take(self, length: int) -> bytes:
        self._claim(length)
        self.keep(length)
        taken = self._stream.read(length)
        if len(taken) < length:
            raise self.broken("was truncated while it was read")
        return taken

    def keep(self, size: Bytes) -> None:
        self._kept += size
        if self._kept > MOST_KEPT:
            raise self.broken("has a header with more than any known model")

    def skip(self, length: int) -> None:
        self._claim(length)
        self._stream.seek(length, 1)

    def skip_texts(self, count: int) -> None:
        """Skip so many texts, block by block: a vocabulary has hundreds of thousands of them."""
        self.expect(count, least=8, what="texts", most=MOST_TEXTS - self._texts)
        self._texts += count
        block, start, at = b"", self.at, self.at
        for _ in range(count):
            if at + LENGTH.size > start + len(block):
                block, start = self._block(at), at
            at += LENGTH.size + LENGTH.unpack_from(block, at - start)[0]
        self._go_to(at)

    def number(self, code: str) -> int:
        number: int = struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]
        return number

    def text(self, longest: int) -> str | Long:
        """A text, or its length if it is longer than `longest`."""
        length = self.number("Q")
        if length > longest:
            self.skip(length)
            return Long(length)
        return self.take(length).decode("utf-8", "replace")

    def name_of(self, what: str) -> str:
        name = self.text(LONGEST_NAME)
        if isinstance(name, Long):
            raise self.broken(f"has a {what} whose name is {name.length} bytes long")
        return name

    def expect(self, count: int, least: Bytes, what: str, most: int) -> None:
        """Refuse a count that the rest of the file cannot hold, before looping that often."""
        if count * least > self.size - self.at:
            raise self.broken(f"claims {count} {what}, more than its size allows")
        if count > most:
            raise self.broken(f"claims {count} {what}, more than any known model")

    def broken(self, what: str) -> CannotEstimate:
        return CannotEstimate(f"{self._name} {what}; is it a complete GGUF file?")

    def _block(self, at: int) -> bytes:
        self._go_to(at)
        block = self._stream.read(BLOCK)
        if len(block) < LENGTH.size:
            raise self.broken("is truncated within its vocabulary")
        return block

    def _go_to(self, at: int) -> None:
        self._claim(at - self.at)
        self._stream.seek(at)

    def _claim(self, length: int) -> None:
        if length > self.size - self.at:
            raise self.broken(f"is truncated: it ends after {self.size} bytes, within its header")
        self.at += length


# Keys


def _key(cursor: _Cursor) -> tuple[str, Value]:
    name = cursor.name_of("key")
    kind = cursor.number("I")
    if kind == ARRAY:
        return name, _array(cursor)
    return name, _value(cursor, kind, LONGEST_TEMPLATE if name == CHAT_TEMPLATE else LONGEST_TEXT)


def _value(cursor: _Cursor, kind: int, longest: int) -> Scalar | Long:
    if kind == TEXT:
        return cursor.text(longest)
    if kind not in SCALARS:
        raise cursor.broken(f"has a value of the unknown type {kind}")
    return cursor.number(SCALARS[kind])


def _array(cursor: _Cursor) -> Value:
    kind, length = cursor.number("I"), cursor.number("Q")
    if kind == TEXT:
        cursor.skip_texts(length)
        return Long(length)
    if kind not in SCALARS:
        raise cursor.broken(f"has an array of the unknown type {kind}")
    size = struct.calcsize(SCALARS[kind])
    if length > LONGEST_ARRAY:
        cursor.skip(length * size)
        return Long(length)
    cursor.keep(length * ENTRY)
    return struct.unpack(f"<{length}{SCALARS[kind]}", cursor.take(length * size))


# Tensors


@dataclass(frozen=True, slots=True)
class _Listed:
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def _listed(cursor: _Cursor) -> _Listed:
    name = cursor.name_of("tensor")
    dimensions = cursor.number("I")
    if dimensions > MOST_DIMENSIONS:
        raise cursor.broken(f"has a tensor of {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    return _Listed(name, shape, cursor.number("I"), cursor.number("Q"))


def _sized(cursor: _Cursor, listed: list[_Listed], alignment: Value) -> tuple[Tensor, ...]:
    """The tensors with their sizes: from their type if it is known, else from where the next one begins."""
    if not isinstance(alignment, int) or alignment < 1:
        raise cursor.broken(f"has the alignment {alignment}")
    available = cursor.size - -(-cursor.at // alignment) * alignment
    following = _following([tensor.offset for tensor in listed], available)
    tensors = tuple(_tensor(each, following[each.offset] - each.offset) for each in listed)
    for each, tensor in zip(listed, tensors, strict=True):
        if each.offset + tensor.size > available:
            missing = each.offset + tensor.size - available
            raise cursor.broken(f"is truncated: {missing} bytes are missing at the end of {tensor.name[:80]}")
    return tensors


def _tensor(listed: _Listed, gap: Bytes) -> Tensor:
    quant = QUANTS.get(listed.kind)
    if quant is None:
        return Tensor(listed.name, listed.shape, f"type {listed.kind}", max(gap, 0))
    return Tensor(listed.name, listed.shape, quant.name, quant.size(prod(listed.shape)))


def _following(offsets: list[int], end: int) -> dict[int, int]:
    """For each offset, the next larger one."""
    ordered = sorted(set(offsets))
    return dict(zip(ordered, [*ordered, end][1:], strict=True))
