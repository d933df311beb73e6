"""PURE: the paths of Ollama's API that a model server answers, each with the path of OpenAI's API for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.ollama.requests import CHAT, EMBEDDINGS, read_chat, read_embed, read_embeddings, read_generate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.ollama.requests import Asked


class Endpoint(NamedTuple):
    target: bytes
    """Where its requests go, unless their body says more."""
    read: Callable[[bytes], Asked]
    """Raises ClientError, and what msgspec raises."""


ENDPOINTS = {
    b"/api/chat": Endpoint(CHAT, read_chat),
    b"/api/generate": Endpoint(CHAT, read_generate),
    b"/api/embed": Endpoint(EMBEDDINGS, read_embed),
    b"/api/embeddings": Endpoint(EMBEDDINGS, read_embeddings),
}
"""With POST."""
