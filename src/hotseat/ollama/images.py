"""PURE: images as Ollama's clients send them, in base64 without their type, and as OpenAI's API has them."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error

from hotseat.errors import ClientError

LOOKED_AT = 16
"""Characters: twelve bytes tell every type below."""
KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


def data_uri(image: str) -> str:
    return f"data:image/{_kind(image)};base64,{image}"


def _kind(image: str) -> str:
    try:
        begin = b64decode(image[:LOOKED_AT], validate=True)
    except (Error, ValueError) as problem:
        raise ClientError(f"an image in the request body is not base64: {problem}") from problem
    if begin.startswith(b"RIFF") and begin[8:] == b"WEBP":
        return "webp"
    kind = next((kind for magic, kind in KINDS if begin.startswith(magic)), None)
    if kind is None:
        raise ClientError("an image in the request body is not PNG, JPEG, WebP or GIF; send one of these")
    return kind
