"""What a model file is, by the keys of its head: chat, embedding, another role, or not usable."""

from __future__ import annotations

import re
import struct
from collections import Counter
from enum import Enum
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hotseat.estimates.files import PART, Disk
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from hotseat.estimates.gguf import Head
    from hotseat.estimates.machine import Files
    from hotseat.identifiers import Bytes

HERE = Disk(Path())
EMBEDDERS = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert", "modern-bert"}
EMBEDDERS |= {"eurobert", "gemma-embedding", "t5encoder", "roberta", "xlm-roberta"}
RANK = 4
"""llama.cpp's number for pooling that ranks documents."""
CLASSIFIERS = ("cls.weight", "cls.output.weight")
"""Tensors that only a reranker has; older files have no other sign."""
KINDS = {"adapter": "an adapter", "imatrix": "an importance matrix", "vocab": "only a vocabulary"}
"""Values of general.type that are no model."""
QUANT = re.compile(
    r"(?i)(?:^|[-._])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|FP16|MXFP4(?:_MOE)?|NVFP4))(?=$|[-._])"
)
DRAFT = re.compile(r"(?i)(^|[-._])draft($|[-._])")
NAMELESS = re.compile(r"(?i)(ggml-)?model([-._].*)?|[0-9a-f]{40,}|sha256-.*")
"""File names that do not identify the model; its head has a better name."""
WHISPER_MAGIC = b"lmgg"
WHISPER_WORDS = range(51_000, 53_000)


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


def read_gguf(path: Path, stem: str = "", files: Files = HERE) -> Found:
    """Classify a GGUF file; CannotEstimate says why it cannot be used."""
    from hotseat.estimates.gguf_architecture import anatomy_of  # a start without `modelsDir` classifies none

    head = files.gguf(str(path))
    kind = head.keys.get("general.type", "model")
    if kind in KINDS:
        raise CannotEstimate(f"{path} is {KINDS[str(kind)]}, not a model")
    stem = stem or _stem(path, head)
    found = Found(path, stem, Role.CHAT, Engine.LLAMA, head.size, quant=_quant(stem, head))
    if head.keys.get("general.architecture") == "clip" or kind in ("mmproj", "projector"):
        return replace(found, role=Role.PROJECTOR, width=_number(head, "clip.vision.projection_dim"))
    anatomy = anatomy_of(head, str(path))
    return replace(
        found,
        role=_role(head, anatomy.architecture, stem),
        parameters=sum(prod(tensor.shape) for tensor in head.tensors),
        trained_context=anatomy.trained_context,
        width=anatomy.width,
        vocabulary=anatomy.vocabulary,
        says_pooling=bool(head.keys.get(f"{anatomy.architecture}.pooling_type")),
    )


def _role(head: Head, architecture: str, stem: str) -> Role:
    pooling = head.keys.get(f"{architecture}.pooling_type")
    if pooling == RANK or any(tensor.name in CLASSIFIERS for tensor in head.tensors):
        return Role.RERANK
    if pooling or architecture in EMBEDDERS:
        return Role.EMBEDDING
    return Role.DRAFT if DRAFT.search(stem) else Role.CHAT


def _stem(path: Path, head: Head) -> str:
    part = PART.fullmatch(path.name)
    stem = part[1] if part else path.stem
    # llama.cpp's cache prefixes the file name with the repository.
    stem = re.sub(r"^.+-GGUF_", "", stem)
    said = head.keys.get("general.name")
    return said if NAMELESS.fullmatch(stem) and isinstance(said, str) and said else stem


def _quant(stem: str, head: Head) -> str:
    """The quantisation in the file's name, where it is most precise; else the type of most of its bytes."""
    if said := QUANT.search(stem):
        return said[1].upper()
    sizes: Counter[str] = Counter()
    for tensor in head.tensors:
        sizes[tensor.quant] += tensor.size
    return sizes.most_common(1)[0][0] if sizes else ""


def _number(head: Head, key: str) -> int:
    value = head.keys.get(key)
    return int(value) if isinstance(value, int) else 0


def read_checkpoint(folder: Path) -> Found:
    """Classify a folder of safetensors; CannotEstimate if it is not a language model."""
    checkpoint = HERE.checkpoint(str(folder))
    anatomy = checkpoint.anatomy
    return Found(
        folder,
        _repository(folder),
        Role.EMBEDDING if anatomy.architecture in EMBEDDERS else Role.CHAT,
        Engine.VLLM,
        checkpoint.weights,
        trained_context=anatomy.trained_context,
        width=anatomy.width,
        vocabulary=anatomy.vocabulary,
    )


def _repository(folder: Path) -> str:
    """A snapshot in Hugging Face's cache is named by its hash; the folder above names the repository."""
    for parent in (folder, *folder.parents):
        if parent.name.startswith("models--"):
            return parent.name.rpartition("--")[2]
    return folder.name


def read_whisper(path: Path) -> Found:
    """A model for whisper-server, recognised by its first bytes."""
    try:
        with path.open("rb") as stream:
            head, size = stream.read(8), path.stat().st_size
    except OSError as error:
        raise CannotEstimate(f"{path} cannot be read: {error.strerror}") from None
    magic, words = struct.unpack("<4si", head) if len(head) == 8 else (b"", 0)
    if magic != WHISPER_MAGIC or words not in WHISPER_WORDS:
        raise CannotEstimate(f"{path} is not a whisper.cpp model")
    return Found(path, f"whisper-{path.stem.removeprefix('ggml-')}", Role.SPEECH, Engine.WHISPER, size)
