"""What Ollama's API answers. The names of the fields are Ollama's."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from hotseat.api.schema_base import Schema


class OllamaVersion(Schema):
    version: str


class OllamaDetails(Schema):
    """Fields that hotseat does not know are empty."""

    parent_model: Annotated[str, Field(description="Always empty.")] = ""
    format: str = ""
    family: str = ""
    families: list[str] | None = None
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaEntry(Schema):
    name: Annotated[str, Field(description="With a tag, `latest` if the configured name has none.")]
    model: Annotated[str, Field(description="The same again.")]
    size: Annotated[int, Field(description="Bytes of its files; 0: unknown.")]
    digest: Annotated[str, Field(description="Changes with the files of the model; no hash of their contents.")]
    details: OllamaDetails


class OllamaModel(OllamaEntry):
    modified_at: str


class OllamaModelList(Schema):
    models: list[OllamaModel]


class OllamaRunningModel(OllamaEntry):
    size: Annotated[int, Field(description="Bytes of memory; of its files, if that is not known.")]
    size_vram: Annotated[int, Field(description="The part on GPUs; 0 without `devices` in the configuration.")]
    expires_at: Annotated[str, Field(description="When it is unloaded if no request comes; in a century: never.")]
    context_length: Annotated[int, Field(description="Tokens of one request; 0: unknown.")]


class OllamaRunning(Schema):
    models: list[OllamaRunningModel]


class OllamaShown(Schema):
    modelfile: str
    parameters: Annotated[str, Field(description="`num_ctx` and the tokens of one request, if known.")]
    template: Annotated[str, Field(description="Always empty: the model server has its own template.")] = ""
    details: OllamaDetails
    model_info: Annotated[dict[str, Any], Field(description="The keys of its GGUF file.")]
    capabilities: list[str]
    modified_at: str
