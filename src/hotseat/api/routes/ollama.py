"""Ollama's API, as far as no model server is needed to answer: for tools that know only Ollama."""

from __future__ import annotations

from fastapi import APIRouter

from hotseat.api.ollama_schemas import OllamaVersion

router = APIRouter(tags=["ollama"])

VERSION = "0.12.0"
"""The version of Ollama whose API this is; clients refuse to work with older ones."""


@router.get("/api/version", summary="The version of Ollama whose API hotseat speaks")
async def version() -> OllamaVersion:
    return OllamaVersion(version=VERSION)
