"""Response schemas of the model lists under /v1/."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hotseat.api.model_schemas import SHARE_READ
from hotseat.api.schema_base import Schema


class LoadStatus(Schema):
    value: Annotated[
        Literal["loaded", "loading", "unloaded", "unknown"], Field(description="Unknown for a model of a peer.")
    ] = "unknown"
    progress: Annotated[float | None, Field(description=SHARE_READ)] = None
    args: Annotated[list[str] | None, Field(description="The context, if known, as an option of llama-server.")] = None


class Abilities(Schema):
    """What a model can do according to the configuration."""

    input: list[str]
    output: list[str]
    vision: bool
    audio_transcriptions: bool
    audio_speech: bool
    image_generation: bool
    function_calling: bool
    reranker: bool


class ModelEntry(Schema):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "hotseat"
    status: LoadStatus = LoadStatus()
    name: str | None = None
    description: str | None = None
    context_length: int | None = None
    capabilities: Abilities | None = None
    meta: Annotated[dict[str, Any], Field(description="Type of the name, and metadata from the configuration.")]


class ModelList(Schema):
    object: Literal["list"] = "list"
    data: list[ModelEntry]
