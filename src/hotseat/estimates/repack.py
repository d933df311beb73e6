"""Weights that llama-server copies into another order for the processor, so that they are in memory twice.

Without a device, matrices whose format the processor's fastest kernels need in another order are copied when they are
loaded. The file's own pages stay resident until the kernel reclaims them. Found with llama-server's own builds for each
kind of x86 processor; other processors are not covered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.estimates.quants import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Set

    from hotseat.estimates.gguf import Tensor
    from hotseat.identifiers import Bytes

AMX = {"F16": 0, "Q4_0": 0, "Q4_1": 0, "Q8_0": 4, "Q4_K": 4, "Q5_K": 4, "Q6_K": 0, "IQ4_XS": 2}
"""Formats for Intel's AMX tiles, with the bytes that each block grows by."""
AVX2 = ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4")
AVX512 = (*AVX2, "Q2_K")

AMX_ROWS, AVX_ROWS = 32, 8
"""Matrices whose number of rows is not a multiple of this are not copied."""

LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
"""Lookup tables, which are never multiplied."""


def copied_size(tensor: Tensor, processor: Set[str]) -> Bytes:
    """Bytes of the copy of a matrix on a processor with these flags; 0 if none is made."""
    if tensor.name in LOOKED_UP:
        return 0
    return reordered_size(tensor, processor)


def reordered_size(tensor: Tensor, processor: Set[str]) -> Bytes:
    """The same for a matrix that is multiplied, whatever its name."""
    if len(tensor.shape) == 2 and "amx_int8" in processor and tensor.quant in AMX and not tensor.rows % AMX_ROWS:
        block = BY_NAME[tensor.quant.lower()]
        return tensor.size + tensor.size // block.block_size * AMX[tensor.quant]
    wanted = AVX512 if "avx512bw" in processor else AVX2 if "avx2" in processor else ()
    if len(tensor.shape) >= 2 and tensor.quant in wanted and not tensor.rows % AVX_ROWS:
        return tensor.size
    return 0
