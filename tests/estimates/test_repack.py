"""Which matrices are reordered, as measured with llama-server's builds for each processor."""

from __future__ import annotations

import pytest

from hotseat.estimates.gguf import Tensor
from hotseat.estimates.quants import BY_NAME
from hotseat.estimates.repack import copied_size

OLD: frozenset[str] = frozenset({"sse4_2", "avx"})
AVX2 = OLD | {"avx2"}
AVX512 = AVX2 | {"avx512f", "avx512bw"}
AMX = AVX512 | {"amx_tile", "amx_int8"}


def matrix(quant: str, *shape: int, name: str = "blk.0.attn_q.weight") -> Tensor:
    columns, *rows = shape or (512, 512)
    count = columns
    for each in rows:
        count *= each
    return Tensor(name, (columns, *rows), quant, BY_NAME[quant.lower()].size(count))


@pytest.mark.parametrize(
    ("processor", "copied"),
    [
        (OLD, []),
        (AVX2, ["Q4_0", "Q4_K", "IQ4_NL", "MXFP4"]),
        (AVX512, ["Q4_0", "Q2_K", "Q4_K", "IQ4_NL", "MXFP4"]),
        (AMX, ["F16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]),
    ],
    ids=["old", "avx2", "avx512", "amx"],
)
def test_each_processor_wants_its_own_formats(processor: frozenset[str], copied: list[str]) -> None:
    """Newer processors use more formats; f32, bf16 and rare formats are never copied."""
    names = [quant.name for quant in BY_NAME.values()]

    assert [name for name in names if copied_size(matrix(name), processor)] == copied


@pytest.mark.parametrize(
    ("quant", "bits"), [("F16", 16), ("Q8_0", 9.5), ("Q4_0", 4.5), ("Q4_K", 4.625), ("Q5_K", 5.625), ("IQ4_XS", 4.3125)]
)
def test_some_copies_are_larger_than_the_original(quant: str, bits: float) -> None:
    """AMX's layout stores sums with some formats."""
    assert copied_size(matrix(quant), AMX) == 512 * 512 * bits / 8


def test_rows_must_fit_the_tiles() -> None:
    """An odd number of tokens prevents the copy of the output matrix, or leaves the one for AVX."""
    assert copied_size(matrix("F16", 512, 1001), AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 1001), AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 1000), AMX) == 512 * 1000 * 4.5 / 8


def test_experts_are_copied_only_where_a_format_allows() -> None:
    """AMX supports no stacks of matrices."""
    assert copied_size(matrix("F16", 512, 64, 8), AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 64, 8), AMX) == 512 * 64 * 8 * 4.5 / 8


def test_what_is_looked_up_and_what_is_no_matrix_stays() -> None:
    """Embeddings and norms are not multiplied."""
    assert copied_size(matrix("F16", name="token_embd.weight"), AMX) == 0
    assert copied_size(matrix("F16", 512), AMX) == 0
