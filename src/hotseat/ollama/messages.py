"""PURE: the messages of a chat, from Ollama's form to OpenAI's.

OpenAI's API connects a tool's result with its call by an id. Ollama's clients may send none: then the result belongs to
the first unanswered call of that tool.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections import defaultdict, deque
from typing import Any

import msgspec

from hotseat.errors import ClientError, TooLarge

NOTHING = msgspec.Raw(b"")
MOST_PARTS = 10_000
LOOKED_AT = 16
"""Characters of an image: twelve bytes tell every type below."""
IN_ONE_LINE = bytes.maketrans(b"\t\n\r", b"   ")
KINDS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


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
    return [*parts, *({"type": "image_url", "image_url": {"url": _data_uri(image)}} for image in images)]


def _data_uri(image: str) -> str:
    """Ollama's clients send images in base64 without their type."""
    return f"data:image/{_kind(image)};base64,{image}"


def _kind(image: str) -> str:
    try:
        begin = b64decode(image[:LOOKED_AT], validate=True)
    except (Error, ValueError) as problem:
        raise ClientError(f"an image in the request body is not base64: {problem}") from problem
    if begin.startswith(b"RIFF") and begin[8:] == b"WEBP":
        return "webp"
    kind = next((kind for magic, kind in KINDS if begin.startswith(magic)), None)
    if kind is None:
        raise ClientError("an image in the request body is not PNG, JPEG, WebP or GIF; send one of these")
    return kind


class _Calls:
    """The calls of a chat, in their order, and which of them have a result."""

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
