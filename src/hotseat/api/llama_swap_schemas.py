"""What llama-swap's API answers. The names of the fields are llama-swap's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hotseat.api.schema_base import Schema

SwapState = Literal["stopped", "starting", "ready", "stopping"]

UNKNOWN = -1
"""llama-swap's number for a figure that the model server does not report."""


class SwapDone(Schema):
    msg: Literal["ok"] = "ok"


class SwapModel(Schema):
    id: str
    name: str
    description: str
    state: SwapState
    unlisted: bool
    peerID: str = ""
    aliases: list[str]


class SwapTokens(Schema):
    cache_tokens: int
    draft_tokens: int = 0
    draft_acc_tokens: int = 0
    input_tokens: int
    output_tokens: int
    prompt_per_second: float = UNKNOWN
    tokens_per_second: float


class SwapActivity(Schema):
    """One finished request."""

    id: int
    timestamp: str
    src: Annotated[str, Field(description="The client.")]
    model: str
    req_path: str
    resp_content_type: Annotated[str, Field(description="Always empty: hotseat does not keep it.")] = ""
    resp_status_code: int
    tokens: SwapTokens
    duration_ms: int
    has_capture: Annotated[bool, Field(description="hotseat stores no contents.")] = False


class SwapActivityPage(Schema):
    data: list[SwapActivity]
    page: int
    limit: int
    total: int
    total_pages: int
