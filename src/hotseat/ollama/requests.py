"""PURE: requests of Ollama's API as requests of OpenAI's API, with the members that llama-server adds to it.

What a model server cannot change for one request, such as `num_ctx`, is left out.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hotseat.errors import ClientError
from hotseat.ollama.keep_alive import keep_alive_s
from hotseat.ollama.messages import NOTHING, Message, check_count, openai_messages
from hotseat.ollama.options import Options, for_template, plain_format, sampling

if TYPE_CHECKING:
    from hotseat.identifiers import ClientId, Seconds

CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
EMBEDDINGS = b"/v1/embeddings"
INFILL = b"/infill"


class Answer(Enum):
    """What the client expects in return."""

    MESSAGE = "message"
    RESPONSE = "response"
    EMBEDDINGS = "embeddings"
    EMBEDDING = "embedding"


class KeepAlive(NamedTuple):
    seconds: Seconds | None
    """None: for ever."""


class Translation(Struct, frozen=True):
    """What must be known of a request until its response is translated."""

    model: str
    """As the client wrote it; empty if it named none."""
    answer: Answer
    streams: bool = False
    keep_alive: KeepAlive | None = None
    """None: not said."""


class Asked(Struct, frozen=True):
    """A request of Ollama's API, translated except for its model's name."""

    translation: Translation
    target: bytes = b""
    members: dict[str, Any] | None = None
    """None: it only loads or unloads the model, and no model server is asked."""

    def body(self, model: str) -> bytes:
        return msgspec.json.encode({"model": model, **(self.members or {})})

    def load(self, model: str, client: ClientId) -> bytes:
        """What hotseat's own API must know to load or unload the model for this client."""
        keep_alive = self.translation.keep_alive
        seconds = None if keep_alive is None else -1 if keep_alive.seconds is None else keep_alive.seconds
        named = {"model": self.translation.model or model, "client": client}
        return msgspec.json.encode(named if seconds is None else {**named, "keep_alive": seconds})

    def without_keep_alive(self) -> Asked:
        return replace(self, translation=replace(self.translation, keep_alive=None))


class _Common(msgspec.Struct):
    model: str | None = None
    keep_alive: float | str | None = None
    stream: bool | None = None
    options: Options | None = None
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
        return Asked(translation, target, members | sampling(self.options))


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
    input: msgspec.Raw = NOTHING  # a text or a list of texts, passed on as it is
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
    members = {"messages": openai_messages(chat.messages), **for_template(chat.think, chat.format)}
    if bytes(chat.tools) not in (b"", b"null", b"[]"):
        members["tools"] = chat.tools
    return chat.asked(Answer.MESSAGE, CHAT, members)


def read_generate(body: bytes) -> Asked:
    """A prompt is one message, unless the client has applied the model's template itself or wants a gap filled."""
    asked = _read_generate(body)
    if not asked.prompt:
        return asked.asked(Answer.RESPONSE)
    if asked.suffix:
        members = {"input_prefix": asked.prompt, "input_suffix": asked.suffix, **plain_format(asked.format)}
        return asked.asked(Answer.RESPONSE, INFILL, members)
    if asked.raw:
        if asked.images:
            raise ClientError("`images` and `raw` exclude each other: only a template has a place for images")
        return asked.asked(Answer.RESPONSE, COMPLETIONS, {"prompt": asked.prompt, **plain_format(asked.format)})
    system = [Message("system", asked.system)] if asked.system else []
    messages = [*system, Message("user", asked.prompt, images=asked.images)]
    check_count(messages)
    return asked.asked(
        Answer.RESPONSE, CHAT, {"messages": openai_messages(messages), **for_template(asked.think, asked.format)}
    )


def read_embed(body: bytes) -> Asked:
    asked = _read_embed(body)
    if bytes(asked.input) in (b"", b"null", b'""', b"[]"):
        raise ClientError("`input` in the request body is empty; send a text or a list of texts")
    dimensions = {} if asked.dimensions is None else {"dimensions": asked.dimensions}
    return _for_vectors(asked, Answer.EMBEDDINGS, asked.input, dimensions)


def read_embeddings(body: bytes) -> Asked:
    asked = _read_embeddings(body)
    if not asked.prompt:
        raise ClientError("`prompt` in the request body is empty; send a text")
    return _for_vectors(asked, Answer.EMBEDDING, asked.prompt, {})


def _for_vectors(asked: _Common, answer: Answer, texts: str | msgspec.Raw, more: dict[str, Any]) -> Asked:
    asked.stream, asked.options = False, None
    return asked.asked(answer, EMBEDDINGS, {"input": texts, "encoding_format": "float", **more})
