"""The head of a GGUF file is read correctly, and never trusted."""

from __future__ import annotations

import struct
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from bench.estimates.shapes import Shape, write_zeros
from gguf import GGML_QUANT_SIZES, GGUFReader
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gguf_heads import array, gguf_bytes, number, read_bytes, tensor, text

from hotseat.estimates.files import Disk
from hotseat.estimates.gguf import Long
from hotseat.estimates.quants import QUANTS
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = gguf_bytes(
    [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        number("llama.block_count", 2),
        array("llama.attention.head_count_kv", 4, 2, struct.pack("<2I", 8, 4)),
        array("tokenizer.ggml.tokens", 8, 3, text("a") + text("bc") + text("")),
    ],
    [tensor("token_embd.weight", (64, 4), 1, 0), tensor("blk.0.attn_q.weight", (64, 2), 8, 512)],
    data=512 + 136,
)


def test_keys_and_tensors_are_read() -> None:
    """Short values are kept, of long ones and vocabularies only the length; sizes follow from the types."""
    head = read_bytes(WHOLE)

    assert head.keys == {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.attention.head_count_kv": (8, 4),
        "tokenizer.ggml.tokens": Long(3),
    }
    assert [(tensor.name, tensor.quant, tensor.size) for tensor in head.tensors] == [
        ("token_embd.weight", "F16", 512),
        ("blk.0.attn_q.weight", "Q8_0", 136),
    ]


@pytest.mark.parametrize("quant", ["F16", "Q8_0", "Q4_K", "MXFP4"])
def test_a_real_file_is_read_as_the_gguf_package_reads_it(tmp_path: Path, quant: str) -> None:
    """Names, shapes, types and sizes agree with the reference reader."""
    path = write_zeros(tmp_path / "m.gguf", Shape(quant=quant, vocab=2048))
    theirs = GGUFReader(path)
    ours = Disk(tmp_path).gguf("m.gguf")

    assert [(t.name, t.shape, t.quant, t.size) for t in ours.tensors] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, int(t.n_bytes)) for t in theirs.tensors
    ]
    assert ours.keys["llama.block_count"] == theirs.fields["llama.block_count"].contents()


def test_formats_have_the_sizes_of_the_gguf_package() -> None:
    """Every format of the reference has the same number, block and size here."""
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}

    assert {number: tuple(quant) for number, quant in QUANTS.items()} == theirs


def test_a_model_in_parts_is_one_model(tmp_path: Path) -> None:
    """The keys come from the first part, the tensors from all of them."""
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(WHOLE)
    second = gguf_bytes([], [tensor("blk.1.attn_q.weight", (64, 2), 0, 0)], data=512)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(second)
    head = Disk(tmp_path).gguf("m-00001-of-00002.gguf")

    assert [tensor.name for tensor in head.tensors][-1] == "blk.1.attn_q.weight"
    assert head.keys["llama.block_count"] == 2
    assert head.size == 512 + 136 + 512


def test_parts_with_very_many_tensors(tmp_path: Path) -> None:
    """All parts together have a limit."""
    many = gguf_bytes([], [tensor(str(n), (1,), 24, n) for n in range(15_000)], data=15_000)
    for n in (1, 2):
        (tmp_path / f"m-0000{n}-of-00002.gguf").write_bytes(many)

    with pytest.raises(CannotEstimate, match="more tensors than any known model"):
        Disk(tmp_path).gguf("m-00001-of-00002.gguf")


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    """The error says which part is missing."""
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(WHOLE)

    with pytest.raises(CannotEstimate, match=r"m-00002-of-00002\.gguf cannot be read"):
        Disk(tmp_path).gguf("m-00001-of-00002.gguf")


def test_a_tensor_of_an_unknown_type_reaches_to_the_next() -> None:
    """A format that is unknown to this reader still has a size."""
    head = read_bytes(gguf_bytes([], [tensor("a", (64,), 999, 0), tensor("b", (8,), 0, 96)], data=128))

    assert [tensor.size for tensor in head.tensors] == [96, 32]


HUGE = 1 << 62
HOSTILE = {
    "nothing": b"",
    "another format": b"PK\x03\x04" + bytes(100),
    "version 1": gguf_bytes([], [], version=1),
    "big-endian": gguf_bytes([], [], version=3 << 24),
    "more keys than bytes": b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE) + bytes(100),
    "more tensors than bytes": b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0) + bytes(100),
    "a key without an end": gguf_bytes([struct.pack("<Q", HUGE)], []),
    "a name of a megabyte": gguf_bytes([struct.pack("<Q", 1 << 20) + bytes(1 << 20)], []),
    "an array without an end": gguf_bytes([array("a", 4, HUGE)], []),
    "texts without an end": gguf_bytes([array("a", 8, HUGE)], []),
    "a text without an end": gguf_bytes([array("a", 8, 2, text("x") + struct.pack("<Q", HUGE))], []),
    "arrays within arrays": gguf_bytes([array("a", 9, 1, struct.pack("<IQ", 4, 1))], []),
    "an unknown type": gguf_bytes([text("a") + struct.pack("<I", 99)], []),
    "no alignment": gguf_bytes([number("general.alignment", 0)], []),
    "many dimensions": gguf_bytes([], [text("a") + struct.pack("<I", 1 << 31)]),
    "a tensor of exabytes": gguf_bytes([], [tensor("a", (HUGE, HUGE, HUGE, HUGE), 0, 0)]),
    "a tensor far away": gguf_bytes([], [tensor("a", (8,), 0, HUGE)], data=64),
    "a thousand arrays": gguf_bytes([array(f"a{n}", 0, 4096, bytes(4096)) for n in range(1_000)], []),
    "a thousand long names": gguf_bytes([number("a" * 60_000 + str(n), 1) for n in range(1_000)], []),
    "a hundred thousand keys": gguf_bytes([number(str(n), 1) for n in range(100_000)], []),
    "a hundred thousand tensors": gguf_bytes([], [tensor(str(n), (1,), 24, n) for n in range(100_000)], data=100_000),
    "millions of empty texts": gguf_bytes([array("a", 8, 4_000_001, bytes(8 * 4_000_001))], []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_head_is_refused_at_once(name: str) -> None:
    """The error names the file, and claims of a head cost neither memory nor time."""
    data = HOSTILE[name]
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(CannotEstimate, match=r"^m\.gguf .*is it a complete GGUF file\?$"):
            read_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < len(data) + (1 << 20)
    assert time.process_time() - begun < 2


@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    """A truncated download is never taken for a model."""
    with pytest.raises(CannotEstimate):
        read_bytes(WHOLE[:length])


@given(st.data())
def test_any_bytes_are_a_head_or_a_refusal(data: st.DataObject) -> None:
    """Random changes give a head or CannotEstimate, never another error."""
    changed = bytearray(WHOLE)
    for at in data.draw(st.lists(st.integers(0, len(WHOLE) - 1), min_size=1, max_size=8)):
        changed[at] = data.draw(st.integers(0, 255))
    try:
        head = read_bytes(bytes(changed))
    except CannotEstimate:
        return

    assert head.size <= len(WHOLE) * len(head.tensors)


@given(st.binary(max_size=400))
def test_noise_behind_a_good_beginning_is_no_model(noise: bytes) -> None:
    """A head that claims a key and a tensor is refused if noise follows."""
    start = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)

    with pytest.raises(CannotEstimate, match=r"^m\.gguf "):
        read_bytes(start + noise)
