"""PURE: requests of Ollama's API as requests of OpenAI's API, with the members that llama-server adds to it.

What a model server cannot change for one request, such as `num_ctx`, is left out.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections import defaultdict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hotseat.errors import ClientError, TooLarge
from hotseat.identifiers import CENTURY_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import ClientId, Seconds

CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
EMBEDDINGS = b"/v1/embeddings"
INFILL = b"/infill"
NOTHING = msgspec.Raw(b"")
NULL = msgspec.Raw(b"null")
MOST_PARTS = 10_000


class Answer(Enum):
    """What the client expects in return."""

    MESSAGE = "message"
    RESPONSE = "response"
    EMBEDDINGS = "embeddings"
    EMBEDDING = "embedding"


class KeepAlive(NamedTuple):
    seconds: Seconds | None
    """None: for ever."""


class Translation(msgspec.Struct, frozen=True):
    """What must be known of a request until its response is translated."""

    model: str
    """As the client wrote it; empty if it named none."""
    answer: Answer
    streams: bool = False
    keep_alive: KeepAlive | None = None
    """None: not said."""


class Asked(msgspec.Struct, frozen=True):
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


class CalledFunction(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = NOTHING


class ToolCall(msgspec.Struct):
    function: CalledFunction
    id: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Options(msgspec.Struct):
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


class Endpoint(NamedTuple):
    target: bytes
    """Where its requests go, unless their body says more."""
    read: Callable[[bytes], Asked]
    """Raises ClientError, and what msgspec raises."""


ENDPOINTS = {
    b"/api/chat": Endpoint(CHAT, read_chat),
    b"/api/generate": Endpoint(CHAT, read_generate),
    b"/api/embed": Endpoint(EMBEDDINGS, read_embed),
    b"/api/embeddings": Endpoint(EMBEDDINGS, read_embeddings),
}
"""With POST."""
LONGEST_KEEP_ALIVE = 64
"""Characters of a duration, so that a long text costs nothing."""
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PLAIN = re.compile(rf"[+-]?{_NUMBER}")
_DURATION = re.compile(rf"[+-]?(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def keep_alive_s(value: object) -> Seconds | None:
    """Seconds from 300, "300", "5m" or "1h30m"; None (negative values): for ever. Raises ClientError."""
    seconds = _seconds(value)
    return seconds if 0 <= seconds < CENTURY_S else None


def _seconds(value: object) -> Seconds:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(-1.0, min(value, CENTURY_S))  # also for integers that are too large for a float
    if isinstance(value, str) and len(value) <= LONGEST_KEEP_ALIVE:
        if _PLAIN.fullmatch(value):
            return float(value)
        if _DURATION.fullmatch(value):
            total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
            return -1.0 if value.startswith("-") else total
    raise ClientError('`keep_alive` must be a number of seconds or a duration such as "5m"; 0 unloads, -1 keeps')


ANY_OBJECT = msgspec.Raw(b'{"type":"object"}')
RENAMED = {"num_keep": "n_keep"}


def sampling(options: Options | None) -> dict[str, Any]:
    options = options or Options()
    said = {name: getattr(options, name) for name in options.__struct_fields__}
    members = {RENAMED.get(name, name): value for name, value in said.items() if value not in (NOTHING, NULL)}
    most = members.pop("num_predict", NULL)
    if not bytes(most).startswith((b"-", b"null")):  # negative: until the model or its context ends
        members["max_tokens"] = most
    return members


def for_template(think: bool | str | None, form: msgspec.Raw) -> dict[str, Any]:
    """What only a chat has: reasoning, and the form of the answer."""
    members: dict[str, Any] = {}
    if think is not None and think != "":
        members["chat_template_kwargs"] = {"enable_thinking": think is not False}
    if isinstance(think, str) and think:
        members["reasoning_effort"] = think
        members["chat_template_kwargs"]["reasoning_effort"] = think
    if (schema := _schema(form)) is not None:
        members["response_format"] = _response_format(schema)
    return members


def plain_format(form: msgspec.Raw) -> dict[str, Any]:
    """llama-server's name for the same, where there are no messages; others know OpenAI's."""
    if (schema := _schema(form)) is None:
        return {}
    return {"json_schema": schema, "response_format": _response_format(schema)}


def _response_format(schema: msgspec.Raw) -> dict[str, Any]:
    if schema is ANY_OBJECT:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "response", "strict": True, "schema": schema}}


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


LOOKED_AT = 16
"""Characters of an image: twelve bytes tell every type below."""
IN_ONE_LINE = bytes.maketrans(b"\t\n\r", b"   ")
KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


def check_count(messages: list[Message]) -> None:
    """Each part takes time in which nobody else is served."""
    parts = sum(len(message.tool_calls or ()) + len(message.images or ()) for message in messages)
    if len(messages) + parts > MOST_PARTS:
        raise TooLarge(f"the request body has more than {MOST_PARTS:,} messages, images and tool calls. Send fewer.")


def openai_messages(messages: list[Message]) -> list[dict[str, Any]]:
    calls = _Calls()
    return [_openai_message(message, calls) for message in messages]


def _openai_message(message: Message, calls: _Calls) -> dict[str, Any]:
    translated: dict[str, Any] = {"role": message.role, "content": _content(message.content or "", message.images)}
    if message.thinking:
        translated["reasoning_content"] = message.thinking
    if message.tool_calls:
        translated["tool_calls"] = [calls.made(call) for call in message.tool_calls]
    if message.role == "tool":
        translated["tool_call_id"] = calls.answered(message)
        if message.tool_name:
            translated["name"] = message.tool_name
    return translated


def _content(text: str, images: list[str] | None) -> str | list[dict[str, Any]]:
    if not images:
        return text
    parts = [{"type": "text", "text": text}] if text else []
    urls = (f"data:image/{_kind(image)};base64,{image}" for image in images)
    return [*parts, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]


def _kind(image: str) -> str:
    """Ollama's clients send images in base64 without their type."""
    try:
        begin = b64decode(image[:LOOKED_AT], validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ClientError(f"an image in the request body is not base64: {problem}") from problem
    if begin.startswith(b"RIFF") and begin[8:] == b"WEBP":
        return "webp"
    kind = next((kind for magic, kind in KINDS if begin.startswith(magic)), None)
    if kind is None:
        raise ClientError("an image in the request body is not PNG, JPEG, WebP or GIF; send one of these")
    return kind


class _Calls:
    """The calls of a chat, in their order, and which of them have a result.

    OpenAI's API connects a result with its call by an id. Ollama's clients may send none: then the result belongs to
    the first unanswered call of that tool.
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, None] = {}
        """The ids of the calls without a result."""
        self._of_tool: defaultdict[str, deque[str]] = defaultdict(deque)
        """The ids of the calls of each tool; those with a result may be among them."""

    def made(self, call: ToolCall) -> dict[str, Any]:
        self._count += 1
        call_id = call.id or f"call_{self._count}"
        self._open[call_id] = None
        self._of_tool[call.function.name].append(call_id)
        function = {"name": call.function.name, "arguments": _as_text(call.function.arguments)}
        return {"id": call_id, "type": "function", "function": function}

    def answered(self, message: Message) -> str:
        call_id = message.tool_call_id or self._next_of(message.tool_name) or next(iter(self._open), "")
        self._open.pop(call_id, None)
        return call_id

    def _next_of(self, tool: str | None) -> str:
        calls = self._of_tool[tool or ""]
        while calls:
            if (call_id := calls.popleft()) in self._open:
                return call_id
        return ""


def _as_text(arguments: msgspec.Raw) -> str:
    """OpenAI's API has the arguments as a text with JSON in it; Ollama's as an object."""
    said = bytes(arguments)
    if not said or said == b"null":
        return "{}"
    if said.startswith(b"{"):
        return said.translate(IN_ONE_LINE).decode()  # line breaks between values would become escapes
    if said.startswith(b'"'):
        return msgspec.json.decode(said, type=str)
    raise ClientError("`arguments` of a tool call in the request body is not an object")
