"""The result of a search: models with what their files say, and files that were left out and why."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.identifiers import Bytes


class Role(Enum):
    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    SPEECH = "speech"
    PROJECTOR = "projector"
    """Converts images or sounds to input of a chat model; not usable by itself."""
    DRAFT = "draft"
    """Speculative decoding for a larger model; not usable by itself."""


class Engine(Enum):
    LLAMA = "llama-server"
    VLLM = "vllm"
    WHISPER = "whisper-server"


class Found(Struct, frozen=True):
    path: Path
    """The first file of a split model."""
    stem: str
    """The name under which it was found."""
    role: Role
    engine: Engine
    size: Bytes
    parameters: int = 0
    quant: str = ""
    trained_context: int = 0
    width: int = 0
    """Numbers per token between two layers; for a projector, its output per token. 0: unknown."""
    vocabulary: int = 0
    says_pooling: bool = True
    """False for an embedding model whose file does not say how tokens become one vector."""
    projector: Path | None = None
    draft: Path | None = None


class LeftOut(Struct, frozen=True):
    path: Path
    why: str
