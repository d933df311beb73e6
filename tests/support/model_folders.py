"""Folders with models, as other programs leave them."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING

from tests.support.gguf_heads import gguf_bytes, number, tensor, text

if TYPE_CHECKING:
    from pathlib import Path

F16 = 1
MEDIA = "application/vnd.ollama.image."


def model_bytes(architecture: str = "llama", words: int = 64, rows: int = 64, **more: int | str) -> bytes:
    """A small complete GGUF file; in the names of further keys two underscores stand for a dot."""
    head, data = model_head(architecture, words, rows, **more)
    return head + bytes(data)


def model_head(architecture: str = "llama", words: int = 64, rows: int = 64, **more: int | str) -> tuple[bytes, int]:
    """The beginning of such a file, and how many bytes of weights follow."""
    sizes = {"block_count": 1, "context_length": 65536, "embedding_length": 64, "feed_forward_length": 64}
    keys = [said("general.architecture", architecture)]
    keys += [number(f"{architecture}.{key}", value) for key, value in sizes.items()]
    keys += [number(f"{architecture}.attention.head_count", 1)]
    keys += [said(key.replace("__", "."), value) for key, value in more.items()]
    tensors = [
        tensor("token_embd.weight", (64, words), F16, 0),
        tensor("blk.0.attn_q.weight", (64, rows), F16, 128 * words),
    ]
    return gguf_bytes(keys, tensors), 128 * (words + rows)


def said(key: str, value: int | str) -> bytes:
    return number(key, value) if isinstance(value, int) else text(key) + struct.pack("<I", 8) + text(value)


def put(path: Path, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data or model_bytes())
    return path


def put_ollama(store: Path, name: str, tag: str, **layers: bytes) -> None:
    """A model in Ollama's store; `layers` are its blobs by kind, such as model and projector."""
    listed = []
    for kind, data in layers.items():
        digest = hashlib.sha256(data).hexdigest()
        put(store / "blobs" / f"sha256-{digest}", data)
        listed.append({"mediaType": f"{MEDIA}{kind}", "digest": f"sha256:{digest}", "size": len(data)})
    manifest = {"schemaVersion": 2, "layers": [{"mediaType": f"{MEDIA}license", "digest": "sha256:0"}, *listed]}
    put(store / f"manifests/registry.ollama.ai/library/{name}/{tag}", json.dumps(manifest).encode())


def put_checkpoint(folder: Path) -> Path:
    """A folder as `transformers` saves one."""
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 1,
        "hidden_size": 64,
        "num_attention_heads": 1,
        "max_position_embeddings": 40960,
        "vocab_size": 64,
    }
    put(folder / "config.json", json.dumps(config).encode())
    head = json.dumps({"w": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    put(folder / "model.safetensors", struct.pack("<Q", len(head)) + head + bytes(8))
    return folder
