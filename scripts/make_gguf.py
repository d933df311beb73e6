#!/usr/bin/env python3
"""Write a tiny, valid llama-architecture GGUF with random weights; real llama.cpp servers load it.

The file is deterministic for given options and handy in tests: one ASCII character of a prompt is one token, and a
reply never ends by itself, so it has exactly `max_tokens` readable made-up words.

Without a path it makes the three models that the tests use (alpha, beta, embed) in FOLDER, each only where missing.
Needs gguf and numpy (requirements/dev.txt).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, LlamaFileType, TokenType

Weights = npt.NDArray[np.float32]

UNK, BOS, EOS = range(3)
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a model; `dim` is a multiple of 32 x `heads`."""

    name: str = "tiny-random-llama"
    layers: int = 4
    dim: int = 256
    ff: int = 512
    heads: int = 4
    context: int = 8192
    words: int = 1024
    seed: int = 1


TINY = Shape()
KIT = {
    "alpha": replace(TINY, name="alpha"),
    "beta": replace(TINY, name="beta", seed=2),
    "embed": replace(TINY, name="embed", seed=3),
}
BIG = Shape(name="big", layers=12, dim=2048, ff=8192, heads=32)
"""1.6 GB: loads in seconds, for tests of slow loads."""


def main() -> None:
    options = parse_options()
    if options.path:
        shape = Shape(**{field: getattr(options, field) for field in Shape.__dataclass_fields__})
        write_model(options.path, shape)
        return
    wanted = {**KIT, "big": BIG} if options.big else KIT
    for name, shape in wanted.items():
        make_once(options.folder / f"{name}.gguf", shape)


def make_once(path: Path, shape: Shape) -> None:
    """Write the model unless it exists; a file under its name is always complete."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        write_model(unfinished, shape)
        unfinished.replace(path)
    print(f"{path} {path.stat().st_size / 1e6:.1f} MB")


def write_model(path: Path, shape: Shape) -> None:
    out = GGUFWriter(path, "llama")
    pieces = vocabulary(shape.words)
    describe_model(out, shape, len(pieces))
    describe_tokens(out, pieces)
    add_tensors(out, shape, len(pieces))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def vocabulary(n_words: int) -> list[tuple[str, TokenType]]:
    """Specials, 256 bytes, ASCII characters, words."""
    pieces = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
    pieces += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
    pieces += [(char, TokenType.NORMAL) for char in ["▁", *map(chr, range(33, 127))]]
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    words = ["▁" + a + b for a, b in product(syllables, syllables)]
    if n_words > len(words):
        raise SystemExit(f"--words {n_words} is too many: there are {len(words)}")
    return pieces + [(word, TokenType.NORMAL) for word in words[:n_words]]


# gguf has no types, so its writer is Any below.


def describe_model(out: Any, shape: Shape, n_vocab: int) -> None:
    out.add_name(shape.name)
    out.add_file_type(LlamaFileType.MOSTLY_F16)
    out.add_vocab_size(n_vocab)
    out.add_context_length(shape.context)
    out.add_embedding_length(shape.dim)
    out.add_block_count(shape.layers)
    out.add_feed_forward_length(shape.ff)
    out.add_head_count(shape.heads)
    out.add_head_count_kv(shape.heads)
    out.add_rope_dimension_count(shape.dim // shape.heads)
    out.add_layer_norm_rms_eps(1e-5)


def describe_tokens(out: Any, pieces: list[tuple[str, TokenType]]) -> None:
    out.add_tokenizer_model("llama")
    out.add_token_list([text for text, _ in pieces])
    out.add_token_scores([0.0] * len(pieces))
    out.add_token_types([kind for _, kind in pieces])
    out.add_unk_token_id(UNK)
    out.add_bos_token_id(BOS)
    out.add_eos_token_id(EOS)
    out.add_add_space_prefix(False)
    out.add_chat_template(CHAT_TEMPLATE)


def add_tensors(out: Any, shape: Shape, n_vocab: int) -> None:
    rng = np.random.default_rng(shape.seed)
    embedding = rng.standard_normal((n_vocab, shape.dim), dtype=np.float32)
    output = matrix(rng, n_vocab, shape.dim, scale=3.0)
    # Channel 0 of the hidden state is a constant that no layer writes to; the output matrix uses it as a bias that
    # rules out everything but the words.
    embedding[:, 0] = 4.0
    output[:, 0] = 0.0
    output[: n_vocab - shape.words, 0] = -32.0
    out.add_tensor("token_embd.weight", embedding.astype(np.float16))
    for layer in range(shape.layers):
        add_layer(out, rng, f"blk.{layer}.", shape.dim, shape.ff)
    out.add_tensor("output_norm.weight", np.ones(shape.dim, dtype=np.float32))
    out.add_tensor("output.weight", output.astype(np.float16))


def add_layer(out: Any, rng: np.random.Generator, block: str, dim: int, ff: int) -> None:
    attention_out, ff_down = matrix(rng, dim, dim), matrix(rng, dim, ff)
    attention_out[0] = ff_down[0] = 0.0
    tensors = {
        "attn_q": matrix(rng, dim, dim),
        "attn_k": matrix(rng, dim, dim),
        "attn_v": matrix(rng, dim, dim),
        "attn_output": attention_out,
        "ffn_gate": matrix(rng, ff, dim),
        "ffn_up": matrix(rng, ff, dim),
        "ffn_down": ff_down,
    }
    for norm in ("attn_norm", "ffn_norm"):
        out.add_tensor(f"{block}{norm}.weight", np.ones(dim, dtype=np.float32))
    for key, weights in tensors.items():
        out.add_tensor(f"{block}{key}.weight", weights.astype(np.float16))


def matrix(rng: np.random.Generator, rows: int, columns: int, scale: float = 1.0) -> Weights:
    weights = rng.standard_normal((rows, columns), dtype=np.float32)
    return weights * np.float32(scale / columns**0.5)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".cache/models"), help="of the tests' models (%(default)s)")
    parser.add_argument("--big", action="store_true", help="make the 1.6 GB model there too")
    parser.add_argument("path", type=Path, nargs="?", help="write one model of your own here")
    for field in Shape.__dataclass_fields__.values():
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
