"""What Ollama's API answers. The names of the fields are Ollama's."""

from __future__ import annotations

from hotseat.api.schema_base import Schema


class OllamaVersion(Schema):
    version: str
