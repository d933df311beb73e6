"""PURE: requests of Ollama's API as requests of OpenAI's API, with the members that llama-server adds to it.

What a model server cannot change for one request, such as `num_ctx`, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotseat.errors import ClientError
from hotseat.ollama.keep_alive import keep_alive_s
from hotseat.ollama.messages import NOTHING, Message, check_count, openai_messages

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds

CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
EMBEDDINGS = b"/v1/embeddings"
INFILL = b"/infill"

RENAMED = {"num_keep": "n_keep"}


class Answer(Enum):
    """What the client expects in return."""

    MESSAGE = "message"
    RESPONSE = "response"
    EMBEDDINGS = "embeddings"
    EMBEDDING = "embedding"


class KeepAlive(NamedTuple):
    seconds: Seconds | None
    """None: for ever."""


@dataclass(frozen=True, slots=True)
class Translation:
    """What must be known of a request until its response is translated."""

    model: str
    """As the client wrote it; empty if it named none."""
    answer: Answer
    streams: bool = False
    keep_alive: KeepAlive | None = None
    """None: not said."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of Ollama's API, translated except for its model's name."""

    translation: Translation
    target: bytes = b""
    members: dict[str, Any] | None = None
    """None: it only loads or unloads the model, and no model server is asked."""

    def body(self, model: str) -> bytes:
        return msgspec.json.encode({"model": model, **(self.members or {})})


class _Options(msgspec.Struct):
    """Those that a model server can apply to one request. Ollama's names are llama-server's, except those renamed."""

    temperature: msgspec.Raw = NOTHING
    top_p: msgspec.Raw = NOTHING
    top_k: msgspec.Raw = NOTHING
    min_p: msgspec.Raw = NOTHING
    typical_p: msgspec.Raw = NOTHING
    seed: msgspec.Raw = NOTHING
    stop: msgspec.Raw = NOTHING
    repeat_penalty: msgspec.Raw = NOTHING
    repeat_last_n: msgspec.Raw = NOTHING
    presence_penalty: msgspec.Raw = NOTHING
    frequency_penalty: msgspec.Raw = NOTHING
    mirostat: msgspec.Raw = NOTHING
    mirostat_tau: msgspec.Raw = NOTHING
    mirostat_eta: msgspec.Raw = NOTHING
    num_keep: msgspec.Raw = NOTHING
    num_predict: msgspec.Raw = NOTHING


class _Common(msgspec.Struct):
    model: str | None = None
    keep_alive: Any = None
    stream: bool | None = None
    options: _Options | None = None
    format: msgspec.Raw = NOTHING
    think: bool | str | None = None

    def asked(self, answer: Answer, target: bytes = b"", members: dict[str, Any] | None = None) -> Asked:
        keep_alive = None if self.keep_alive is None else KeepAlive(keep_alive_s(self.keep_alive))
        streams = self.stream is not False
        translation = Translation(self.model or "", answer, streams, keep_alive)
        if members is None:
            return Asked(translation)
        if streams:
            members |= {"stream": True, "stream_options": {"include_usage": True}}
        return Asked(translation, target, members | _sampling(self.options or _Options()))


class _Chat(_Common):
    messages: list[Message] | None = None
    tools: msgspec.Raw = NOTHING


class _Generate(_Common):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None


class _Embed(_Common):
    input: str | list[str] | None = None
    dimensions: int | None = None


class _Embeddings(_Common):
    prompt: str | None = None


_read_chat = msgspec.json.Decoder(_Chat).decode
_read_generate = msgspec.json.Decoder(_Generate).decode
_read_embed = msgspec.json.Decoder(_Embed).decode
_read_embeddings = msgspec.json.Decoder(_Embeddings).decode


def read_chat(body: bytes) -> Asked:
    chat = _read_chat(body)
    if not chat.messages:
        return chat.asked(Answer.MESSAGE)
    check_count(chat.messages)
    members = {"messages": openai_messages(chat.messages), **_for_template(chat)}
    if chat.tools not in (NOTHING, _NULL, _NO_TOOLS):
        members["tools"] = chat.tools
    return chat.asked(Answer.MESSAGE, CHAT, members)


def read_generate(body: bytes) -> Asked:
    """A prompt is one message, unless the client has applied the model's template itself or wants a gap filled."""
    asked = _read_generate(body)
    if not asked.prompt:
        return asked.asked(Answer.RESPONSE)
    if asked.suffix:
        members = {"input_prefix": asked.prompt, "input_suffix": asked.suffix, **_plain_format(asked)}
        return asked.asked(Answer.RESPONSE, INFILL, members)
    if asked.raw:
        if asked.images:
            raise ClientError("`images` and `raw` exclude each other: only a template has a place for images")
        return asked.asked(Answer.RESPONSE, COMPLETIONS, {"prompt": asked.prompt, **_plain_format(asked)})
    system = [Message("system", asked.system)] if asked.system else []
    messages = [*system, Message("user", asked.prompt, images=asked.images)]
    check_count(messages)
    return asked.asked(Answer.RESPONSE, CHAT, {"messages": openai_messages(messages), **_for_template(asked)})


def read_embed(body: bytes) -> Asked:
    asked = _read_embed(body)
    if not asked.input:
        raise ClientError("`input` in the request body is empty; send a text or a list of texts")
    dimensions = {} if asked.dimensions is None else {"dimensions": asked.dimensions}
    return _for_vectors(asked, Answer.EMBEDDINGS, asked.input, dimensions)


def read_embeddings(body: bytes) -> Asked:
    asked = _read_embeddings(body)
    if not asked.prompt:
        raise ClientError("`prompt` in the request body is empty; send a text")
    return _for_vectors(asked, Answer.EMBEDDING, asked.prompt, {})


def _for_vectors(asked: _Common, answer: Answer, texts: str | list[str], more: dict[str, Any]) -> Asked:
    asked.stream, asked.options = False, None
    return asked.asked(answer, EMBEDDINGS, {"input": texts, "encoding_format": "float", **more})


# Options


def _sampling(options: _Options) -> dict[str, Any]:
    said = {name: getattr(options, name) for name in options.__struct_fields__}
    members = {RENAMED.get(name, name): value for name, value in said.items() if value not in (NOTHING, _NULL)}
    most = members.pop("num_predict", _NULL)
    if not bytes(most).startswith((b"-", b"null")):  # negative: until the model or its context ends
        members["max_tokens"] = most
    return members


def _for_template(asked: _Common) -> dict[str, Any]:
    """What only a chat has: reasoning, and the form of the answer."""
    members: dict[str, Any] = {}
    if asked.think is not None and asked.think != "":
        members["chat_template_kwargs"] = {"enable_thinking": asked.think is not False}
    if isinstance(asked.think, str) and asked.think:
        members["reasoning_effort"] = asked.think
        members["chat_template_kwargs"]["reasoning_effort"] = asked.think
    if (schema := _schema(asked.format)) is not None:
        members["response_format"] = _response_format(schema)
    return members


def _plain_format(asked: _Common) -> dict[str, Any]:
    """llama-server's name for the same, where there are no messages; others know OpenAI's."""
    if (schema := _schema(asked.format)) is None:
        return {}
    return {"json_schema": schema, "response_format": _response_format(schema)}


def _response_format(schema: msgspec.Raw) -> dict[str, Any]:
    if schema is ANY_OBJECT:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "response", "strict": True, "schema": schema}}


ANY_OBJECT = msgspec.Raw(b'{"type":"object"}')
_NULL = msgspec.Raw(b"null")
_NO_TOOLS = msgspec.Raw(b"[]")


def _schema(form: msgspec.Raw) -> msgspec.Raw | None:
    """`json`, or a JSON schema."""
    said = bytes(form)
    if said in (b"", b"null", b'""'):
        return None
    if said == b'"json"':
        return ANY_OBJECT
    if not said.startswith(b"{"):
        raise ClientError('`format` in the request body must be "json" or a JSON schema')
    return form
