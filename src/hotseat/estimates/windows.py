"""Which layers have a sliding window and so cache no more than that.

Newer files say it themselves; the table for the others is what llama.cpp has built in. A test compares each
architecture here with the real llama-server.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.estimates.gguf import Value


class Full(Enum):
    """Which layer of a period has full attention."""

    LAST = "last"
    FIRST = "first"


class Pattern(NamedTuple):
    period: int
    full: Full = Full.LAST
    window: int | None = None
    """Set if the architecture has its own, whatever the file says."""
    only_with: int | None = None
    """Set if only models with so many layers have windows at all."""


PATTERNS = {
    "gemma2": Pattern(2),
    "gemma3": Pattern(6),
    "gemma3n": Pattern(5),
    "gpt-oss": Pattern(2),
    "cohere2": Pattern(4),
    "olmo2": Pattern(4),
    "exaone4": Pattern(4, only_with=64),
    "exaone-moe": Pattern(4),
    "afmoe": Pattern(4),
    "plamo3": Pattern(8),
    "llama4": Pattern(4, window=8192),
    "smallthinker": Pattern(4, Full.FIRST, window=4096),
}

PLAIN = {"llama", "mistral3", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe"}
PLAIN |= {"gemma", "phi2", "phi3", "phimoe", "command-r", "granite", "granitemoe", "glm4", "glm4moe"}
PLAIN |= {"deepseek2", "olmo", "starcoder2", "gpt2", "gptneox", "falcon", "stablelm", "smollm3", "internlm2"}
PLAIN |= {"ernie4_5", "ernie4_5-moe"}
"""They have no windows in llama.cpp, even if their files mention one."""


def window_of(architecture: str, keys: Mapping[str, Value], layer: int, layers: int) -> int | None:
    """The window of one layer; None for full attention."""
    if architecture in PLAIN:
        return None
    pattern = PATTERNS.get(architecture)
    window = pattern.window if pattern and pattern.window else keys.get("attention.sliding_window")
    if not isinstance(window, int) or window < 1 or not _slides(pattern, keys, layer, layers):
        return None
    return window


def _slides(pattern: Pattern | None, keys: Mapping[str, Value], layer: int, layers: int) -> bool:
    declared = keys.get("attention.sliding_window_pattern")
    if isinstance(declared, tuple):
        return layer < len(declared) and bool(declared[layer])
    if pattern and pattern.only_with and pattern.only_with != layers:
        return False
    period = declared if isinstance(declared, int) else pattern.period if pattern else 1
    if not period:
        return True
    full = 0 if pattern and pattern.full is Full.FIRST else period - 1
    return layer % period != full
