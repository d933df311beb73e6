"""Writes GGUF files of any shape with zero weights, fast.

A server maps, copies and multiplies zeros like any weights, so its memory is that of a real model of the same shape.
The file is sparse: a model of half a gigabyte takes a megabyte of disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Tensors = dict[str, tuple[int, ...]]
"""Names and shapes, the longest-striding dimension first, as in numpy."""

SPECIAL = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
BYTES = [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
PER_HEAD = ("rope.dimension_count", "attention.key_length", "attention.value_length")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a model; `quant` is the type of its matrices, norms are always f32."""

    arch: str = "llama"
    layers: int = 4
    dim: int = 512
    ff: int = 1024
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 64
    vocab: int = 4096
    context: int = 8192
    quant: str = "F16"
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the architecture, without its prefix."""


def write_zeros(path: Path, shape: Shape) -> Path:
    """Write the model and return its path."""
    out = GGUFWriter(path, shape.arch)
    describe(out, shape)
    size = 0
    for name, sizes, quant in tensors(shape):
        size = list_tensor(out, name, sizes, quant, size)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
    with path.open("r+b") as file:
        file.truncate(GGUFWriter.ggml_pad(path.stat().st_size, out.data_alignment) + size)
    return path


def list_tensor(out: Any, name: str, sizes: tuple[int, ...], quant: GGMLQuantizationType, before: int) -> int:
    """Add a tensor to the head and return the size of all data including it."""
    block, block_size = GGML_QUANT_SIZES[quant]
    in_bytes = (*sizes[:-1], sizes[-1] // block * block_size)
    dtype = {"F32": np.float32, "F16": np.float16}.get(quant.name, np.uint8)
    listed = in_bytes if dtype is np.uint8 else sizes
    out.add_tensor_info(name, listed, np.dtype(dtype), prod(in_bytes), raw_dtype=quant)
    return before + int(GGUFWriter.ggml_pad(prod(in_bytes), out.data_alignment))


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...], GGMLQuantizationType]]:
    """Every tensor with its shape and type."""
    quant, plain = GGMLQuantizationType[shape.quant], GGMLQuantizationType.F32
    for name, sizes in {**around(shape), **blocks(shape)}.items():
        is_matrix = len(sizes) > 1 and name.endswith(".weight") and "ssm_conv1d" not in name
        yield name, sizes, quant if is_matrix else plain


def around(shape: Shape) -> Tensors:
    outer: Tensors = {"token_embd.weight": (shape.vocab, shape.dim), "output_norm.weight": (shape.dim,)}
    return outer if shape.arch == "gemma3" else {**outer, "output.weight": (shape.vocab, shape.dim)}


def blocks(shape: Shape) -> Tensors:
    block = BLOCKS[shape.arch](shape)
    return {f"blk.{n}.{name}": sizes for n in range(shape.layers) for name, sizes in block.items()}


def llama(s: Shape) -> Tensors:
    return {**attention(s), **feed_forward(s)}


def attention(s: Shape) -> Tensors:
    return {
        "attn_norm.weight": (s.dim,),
        "attn_q.weight": (s.heads * s.head_dim, s.dim),
        "attn_k.weight": (s.kv_heads * s.head_dim, s.dim),
        "attn_v.weight": (s.kv_heads * s.head_dim, s.dim),
        "attn_output.weight": (s.dim, s.heads * s.head_dim),
    }


def feed_forward(s: Shape) -> Tensors:
    return {
        "ffn_norm.weight": (s.dim,),
        "ffn_gate.weight": (s.ff, s.dim),
        "ffn_up.weight": (s.ff, s.dim),
        "ffn_down.weight": (s.dim, s.ff),
    }


def gemma3(s: Shape) -> Tensors:
    norms = ("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm")
    sizes = (s.head_dim, s.head_dim, s.dim, s.dim)
    return {**llama(s), **{f"{norm}.weight": (size,) for norm, size in zip(norms, sizes, strict=True)}}


def qwen3moe(s: Shape) -> Tensors:
    experts, ff = s.more["expert_count"], s.more["expert_feed_forward_length"]
    return {
        **attention(s),
        "attn_q_norm.weight": (s.head_dim,),
        "attn_k_norm.weight": (s.head_dim,),
        "ffn_norm.weight": (s.dim,),
        "ffn_gate_inp.weight": (experts, s.dim),
        "ffn_gate_exps.weight": (experts, ff, s.dim),
        "ffn_up_exps.weight": (experts, ff, s.dim),
        "ffn_down_exps.weight": (experts, s.dim, ff),
    }


def deepseek2(s: Shape) -> Tensors:
    """Multi-head latent attention: the cache has one compressed vector and one rotated part per token."""
    rank, rope = s.more["attention.kv_lora_rank"], s.more["rope.dimension_count"]
    key, value = s.more["attention.key_length_mla"], s.more["attention.value_length_mla"]
    query_rank = s.more["attention.q_lora_rank"]
    return {
        "attn_norm.weight": (s.dim,),
        "attn_q_a.weight": (query_rank, s.dim),
        "attn_q_a_norm.weight": (query_rank,),
        "attn_q_b.weight": (s.heads * key, query_rank),
        "attn_kv_a_mqa.weight": (rank + rope, s.dim),
        "attn_kv_a_norm.weight": (rank,),
        "attn_k_b.weight": (s.heads, rank, key - rope),
        "attn_v_b.weight": (s.heads, value, rank),
        "attn_output.weight": (s.dim, s.heads * value),
        **feed_forward(s),
    }


def mamba(s: Shape) -> Tensors:
    conv, inner, state, rank = (
        s.more[f"ssm.{key}"] for key in ("conv_kernel", "inner_size", "state_size", "time_step_rank")
    )
    return {
        "attn_norm.weight": (s.dim,),
        "ssm_in.weight": (2 * inner, s.dim),
        "ssm_conv1d.weight": (inner, conv),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (rank + 2 * state, inner),
        "ssm_dt.weight": (inner, rank),
        "ssm_dt.bias": (inner,),
        "ssm_a": (inner, state),
        "ssm_d": (inner,),
        "ssm_out.weight": (s.dim, inner),
    }


BLOCKS: dict[str, Callable[[Shape], Tensors]] = {
    "llama": llama,
    "gemma3": gemma3,
    "qwen3moe": qwen3moe,
    "deepseek2": deepseek2,
    "mamba": mamba,
}


# gguf has no types, so its writer is Any.


def describe(out: Any, shape: Shape) -> None:
    out.add_vocab_size(shape.vocab)
    out.add_context_length(shape.context)
    out.add_embedding_length(shape.dim)
    out.add_block_count(shape.layers)
    out.add_feed_forward_length(shape.ff)
    out.add_head_count(shape.heads)
    out.add_head_count_kv(shape.kv_heads)
    out.add_layer_norm_rms_eps(1e-5)
    per_head = dict.fromkeys(PER_HEAD, shape.head_dim) if shape.head_dim else {}
    for key, value in {**per_head, **shape.more}.items():
        add = out.add_array if isinstance(value, list) else out.add_uint32
        add(f"{shape.arch}.{key}", value)
    describe_tokens(out, shape.vocab)


def describe_tokens(out: Any, size: int) -> None:
    """So many tokens: bytes, letters, and words of up to four letters; one letter of a prompt is one token."""
    words = ("▁" + "".join(each) for n in range(1, 5) for each in product(LETTERS, repeat=n))
    pieces = [*SPECIAL, *BYTES, *((letter, TokenType.NORMAL) for letter in ["▁", *LETTERS])]
    pieces += [(next(words), TokenType.NORMAL) for _ in range(size - len(pieces))]
    out.add_tokenizer_model("llama")
    out.add_token_list([text for text, _ in pieces])
    out.add_token_scores([0.0] * len(pieces))
    out.add_token_types([kind for _, kind in pieces])
    out.add_unk_token_id(0)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_add_space_prefix(False)
