#!/usr/bin/env python3
"""`make_whisper.py FILE`: writes a model for whisper.cpp with random weights, unless the file exists.

Real servers load it; the texts that it makes of a recording have no meaning.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    Tensor = tuple[str, tuple[int, ...]]
    """The name and the sizes, the innermost first."""

MAGIC = 0x67676D6C
STATE, HEADS, LAYERS, MELS, FREQUENCIES = 64, 1, 1, 80, 201
AUDIO_CONTEXT, TEXT_CONTEXT = 1500, 448
VOCABULARY = 51864
"""That of the English models: whisper.cpp takes the special tokens from their usual numbers."""
CHARACTERS = bytes(range(32, 96))
"""The tokens with a text. The first is the space, which whisper.cpp looks up."""
FLOATS = 0
"""The number of the type of all weights."""


def write_model(file: Path) -> None:
    weights = noise()
    shape = (VOCABULARY, AUDIO_CONTEXT, STATE, HEADS, LAYERS, TEXT_CONTEXT, STATE, HEADS, LAYERS, MELS, FLOATS)
    with file.open("wb") as model:
        model.write(struct.pack("<I11i", MAGIC, *shape))
        model.write(struct.pack("<2i", MELS, FREQUENCIES) + enough(weights, MELS * FREQUENCIES))
        model.write(struct.pack("<i", len(CHARACTERS)))
        model.writelines(struct.pack("<IB", 1, character) for character in CHARACTERS)
        for name, sizes in tensors():
            head = struct.pack(f"<{3 + len(sizes)}i", len(sizes), len(name), FLOATS, *sizes)
            model.write(head + name.encode() + enough(weights, math.prod(sizes)))


def noise() -> array[float]:
    chance = random.Random(1)
    return array("f", (chance.gauss(0, 0.05) for _ in range(4096)))


def enough(weights: array[float], count: int) -> bytes:
    return (weights * (count // len(weights) + 1))[:count].tobytes()


def tensors() -> Iterator[Tensor]:
    yield "encoder.positional_embedding", (STATE, AUDIO_CONTEXT)
    yield "decoder.positional_embedding", (STATE, TEXT_CONTEXT)
    yield "decoder.token_embedding.weight", (STATE, VOCABULARY)
    for name, channels in (("conv1", MELS), ("conv2", STATE)):
        yield f"encoder.{name}.weight", (3, channels, STATE)
        yield f"encoder.{name}.bias", (1, STATE)
    yield from pair("encoder.ln_post", STATE)
    yield from pair("decoder.ln", STATE)
    for part in ("encoder", "decoder"):
        yield from layer(f"{part}.blocks.0", ("attn", "cross_attn") if part == "decoder" else ("attn",))


def layer(name: str, attentions: tuple[str, ...]) -> Iterator[Tensor]:
    for attention in attentions:
        yield from pair(f"{name}.{attention}_ln", STATE)
        yield f"{name}.{attention}.key.weight", (STATE, STATE)
        for matrix in ("query", "value", "out"):
            yield from pair(f"{name}.{attention}.{matrix}", STATE, STATE)
    yield from pair(f"{name}.mlp_ln", STATE)
    yield from pair(f"{name}.mlp.0", STATE, 4 * STATE)
    yield from pair(f"{name}.mlp.2", 4 * STATE, STATE)


def pair(name: str, *sizes: int) -> Iterator[Tensor]:
    """Weights with their bias, which has the last size."""
    yield f"{name}.weight", sizes
    yield f"{name}.bias", sizes[-1:]


if __name__ == "__main__" and not (target := Path(sys.argv[1])).exists():
    write_model(target)
