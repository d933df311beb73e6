"""What the router of llama.cpp answers. The names of the fields are llama.cpp's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from hotseat.api.schema_base import Schema

RouterState = Literal["unloaded", "loading", "loaded", "sleeping"]


class RouterStatus(Schema):
    value: RouterState
    args: Annotated[list[str], Field(description="Of its command line only `--ctx-size`, if it has that.")]
    preset: Annotated[str, Field(description="Always empty: hotseat has no preset files.")] = ""
    failed: Annotated[bool | None, Field(description="Its last start failed, or it exited unexpectedly.")] = None
    exit_code: int | None = None


class RouterModalities(Schema):
    input_modalities: list[str]
    output_modalities: list[str]


class RouterModel(Schema):
    id: str
    aliases: list[str]
    tags: tuple[str, ...] = ()
    object: Literal["model"] = "model"
    owned_by: str = "llamacpp"
    created: int
    status: RouterStatus
    architecture: RouterModalities
    source: str = "preset"
    can_remove: bool = False
    context_length: int | None = None
    meta: Annotated[dict[str, int] | None, Field(description="`n_ctx`, if it is known.")] = None


class RouterModels(Schema):
    data: list[RouterModel]
    object: Literal["list"] = "list"


class RouterSuccess(Schema):
    success: Literal[True] = True


class RouterProps(Schema):
    """Of the router itself. Fields that only its web page needs are empty."""

    role: Literal["router"] = "router"
    max_instances: Annotated[int, Field(description="0: only memory limits it.")] = 0
    models_autoload: bool = True
    model_alias: str = "hotseat"
    model_path: str = "none"
    default_generation_settings: dict[str, Any] = Field(default_factory=lambda: {"params": None, "n_ctx": 0})
    ui_settings: dict[str, Any] = Field(default_factory=dict)
    build_info: str
    cors_proxy_enabled: bool = False


class RouterProblem(Schema):
    code: int
    message: str
    type: str


class RouterError(Schema):
    error: RouterProblem


class NamedInBody(Schema):
    model_config = ConfigDict(defer_build=True, extra="allow", json_schema_extra={"examples": [{"model": "qwen"}]})

    model: str
