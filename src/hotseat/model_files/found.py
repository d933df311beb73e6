"""What was found: models with what their files say of them, and what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.identifiers import Bytes


class Role(Enum):
    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    SPEECH = "speech"
    PROJECTOR = "projector"
    """Turns images or sounds into what a chat model reads; no model by itself."""
    DRAFT = "draft"
    """Guesses ahead for a larger model; no model to ask by itself."""


class Engine(Enum):
    LLAMA = "llama-server"
    VLLM = "vllm"
    WHISPER = "whisper-server"


@dataclass(frozen=True, slots=True)
class Found:
    path: Path
    """Of a model in parts, the first."""
    stem: str
    """What it is called where it was found."""
    role: Role
    engine: Engine
    size: Bytes
    parameters: int = 0
    quant: str = ""
    trained_context: int = 0
    width: int = 0
    """Numbers per token between two layers; of a projector, what it makes for a token. 0: not said."""
    vocabulary: int = 0
    says_pooling: bool = True
    """False for an embedding model whose file does not say how tokens become one vector."""
    projector: Path | None = None
    draft: Path | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: Path
    why: str
