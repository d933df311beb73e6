"""The OpenAPI document. It also describes the inference endpoints, which the relay serves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field

from hotseat import __version__
from hotseat.api.schema_base import Error

TITLE = "hotseat"
SUMMARY = "One HTTP address for all the models a machine can run."
DESCRIPTION = """\
Requests under `/v1/` go to the model server named in their `model` field; a model that is not running is loaded first.
Every other path that is not listed here is passed on to the running model server unchanged, and
`/upstream/{model}/{path}` passes `/{path}` on to that model's server.

Every request has an id: its own `X-Request-Id`, if that has at most 128 letters, digits and characters of `._:/+=@-`,
or one that hotseat generates. The id is sent to the model server and returned as `X-Request-Id`, errors included; it is
also in `/hotseat/requests` and in the log. A model server's own `X-Request-Id` is passed on unchanged; then the id of
the request is in the response's `Hotseat-Request-Id`.

A request that hotseat answers itself may have a body of 64 KiB; a larger one gets 413 before it is read.
Long lists are sent in pieces as they are made, without a `Content-Length`.
"""

ModelField = Annotated[str, Field(description="A configured name or an alias.")]


def example(**fields: Any) -> ConfigDict:
    """The initial content of "Try it out"."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Request(BaseModel):
    """Fields that are not listed are forwarded unchanged."""

    model_config = ConfigDict(extra="allow")


class Message(Request):
    role: str
    content: str


class ChatRequest(Request):
    model_config = example(model="qwen", messages=[{"role": "user", "content": "Hello!"}])

    model: ModelField
    messages: list[Message] = []
    temperature: float | None = None
    max_tokens: int | None = None
    stream: Annotated[bool, Field(description="The response is a stream of server-sent events.")] = False


class CompletionRequest(Request):
    model_config = example(model="qwen", prompt="Once upon a time", max_tokens=32)

    model: ModelField
    prompt: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    stop: list[str] | None = None


class EmbeddingRequest(Request):
    model_config = example(model="qwen", input=["one text", "another"])

    model: ModelField
    input: Annotated[str | list[str], Field(description="One text, or several at once.")]


class Embedding(BaseModel):
    object: Literal["embedding"]
    index: Annotated[int, Field(description="Position of the input, from 0.")]
    embedding: list[float]


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingResult(BaseModel):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": description}
    for status, description in (
        (400, "The body is not JSON, or has no model."),
        (404, "The model is not defined in the configuration."),
        (429, "The queue is full; see Retry-After."),
        (500, "The model server's own error, unchanged."),
        (502, "The model server exited before it responded."),
        (503, "The model failed to start, or its health check timed out."),
    )
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The model server's response or stream.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

served_by_the_relay = APIRouter(prefix="/v1", tags=["inference"])


@served_by_the_relay.post("/chat/completions", summary="Chat", responses={**STREAM, **ERRORS})
def chat_completions(body: ChatRequest) -> dict[str, Any]: ...  # type: ignore[empty-body]  # only described


@served_by_the_relay.post("/completions", summary="Complete a text", responses={**STREAM, **ERRORS})
def completions(body: CompletionRequest) -> dict[str, Any]: ...  # type: ignore[empty-body]  # only described


@served_by_the_relay.post(
    "/embeddings", summary="Embeddings; the model must have been started with --embedding", responses=ERRORS
)
def embeddings(body: EmbeddingRequest) -> EmbeddingResult: ...  # type: ignore[empty-body]  # only described


def document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 for all that hotseat answers itself, including the relay's endpoints."""
    described = get_openapi(
        title=TITLE,
        version=__version__,
        summary=SUMMARY,
        description=DESCRIPTION,
        routes=[*served_by_the_relay.routes, *app.routes],
    )
    for methods in described["paths"].values():
        for operation in methods.values():
            _describe_our_400(operation["responses"])
    for unused in ("HTTPValidationError", "ValidationError"):
        del described["components"]["schemas"][unused]
    return described


def _describe_our_400(responses: dict[str, Any]) -> None:
    """Replace FastAPI's own 422 for wrong parameters by our 400 with one message."""
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
        # The relay rejects an ambiguous path before the API sees it.
        shapes = [{"$ref": f"#/components/schemas/{shape}"} for shape in ("Failure", "Error")]
        content = {"application/json": {"schema": {"anyOf": shapes}}}
        responses.setdefault("400", {"description": "A parameter or the path is invalid.", "content": content})
