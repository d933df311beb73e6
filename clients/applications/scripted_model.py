"""A model server that does what the question says, in the APIs of OpenAI (chat and responses) and Anthropic.

`[[say TEXT]]` in the question is answered with the model's name and the text. `[[call TOOL NAME=VALUE; NAME=VALUE]]` is
answered with a call of that tool if the request offers it, and the tool's result with a sentence that contains it.
What the model says is in no question, so an application that shows it has it from the model.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.conformance.stub_upstream import Connection, Request, Stub, parse_options

if TYPE_CHECKING:
    from collections.abc import Iterator

SAY = re.compile(r"\[\[say\s(.*?)\]\]", re.DOTALL)
CALL = re.compile(r"\[\[call (\w+) ?(.*?)\]\]")
RESULTS = ("tool", "tool_result", "function_call_output")
"""What a tool's result is called: the role of a message, or the type of a part of one."""
RESULT = "The tool returned: "
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


@dataclass(frozen=True, slots=True)
class Answer:
    """A text, or the call of a tool."""

    text: str = ""
    tool: str = ""
    arguments: str = ""


def answer_to(fields: dict[str, Any], name: str) -> Answer:
    messages = fields.get("messages") or fields.get("input") or []
    if results := list(results_in(messages)):
        return Answer(RESULT + results[-1])
    question = "\n".join(texts_in([message for message in messages if message.get("role") == "user"]))
    for tool, arguments in CALL.findall(question):
        if tool in offered(fields):
            pairs = [pair.split("=", 1) for pair in arguments.split("; ") if pair]
            return Answer(tool=tool, arguments=json.dumps(dict(pairs)))
    return Answer(says(name) + "\n" + "\n".join(SAY.findall(question)[-1:]))


def says(name: str) -> str:
    """How every text of the model with this name begins."""
    return f"{name} says:"


def results_in(value: Any) -> Iterator[str]:
    """The texts of all results of tools, oldest first."""
    if isinstance(value, list):
        for part in value:
            yield from results_in(part)
    elif isinstance(value, dict) and (value.get("role") in RESULTS or value.get("type") in RESULTS):
        yield "\n".join(texts_in(value.get("content", value.get("output"))))
    elif isinstance(value, dict):
        yield from results_in(value.get("content"))


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)
    elif isinstance(value, dict):
        yield from texts_in(value.get("text", value.get("content")))


def offered(fields: dict[str, Any]) -> set[str]:
    return {tool.get("function", tool).get("name", "") for tool in fields.get("tools") or []}


class ScriptedModel(Stub):
    def __init__(self, options: Any) -> None:  # argparse's namespace
        super().__init__(options)
        self._routes["POST", "/v1/chat/completions"] = self._completion
        self._routes["POST", "/v1/messages"] = self._message
        self._routes["POST", "/v1/responses"] = self._response

    async def _completion(self, request: Request, connection: Connection) -> None:
        fields = request.fields()
        frame = {"id": "chatcmpl-1", "created": 1, "model": fields["model"]}
        said, reason = completion_message(answer_to(fields, self._options.name))
        if not fields.get("stream"):
            choice = {"index": 0, "message": said, "finish_reason": reason}
            await connection.send(200, {**frame, "object": "chat.completion", "choices": [choice], "usage": USAGE})
            return
        chunk = {**frame, "object": "chat.completion.chunk"}
        await connection.begin_stream()
        for delta, ends in ((said, None), ({}, reason)):
            choice = {"index": 0, "delta": delta, "finish_reason": ends}
            await connection.send_event(json.dumps({**chunk, "choices": [choice]}))
        await connection.send_event(json.dumps({**chunk, "choices": [], "usage": USAGE}))
        await connection.send_event("[DONE]")
        await connection.end_stream()

    async def _message(self, request: Request, connection: Connection) -> None:
        fields = request.fields()
        block, delta, reason = message_block(answer_to(fields, self._options.name))
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": fields["model"],
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "stop_sequence": None,
        }
        if not fields.get("stream"):
            await connection.send(200, {**message, "content": [block], "stop_reason": reason})
            return
        await self._events(
            connection,
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {**block, **EMPTY[block["type"]]}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )

    async def _response(self, request: Request, connection: Connection) -> None:
        fields = request.fields()
        item = response_item(answer_to(fields, self._options.name))
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {
            "id": "resp_1",
            "object": "response",
            "model": fields["model"],
            "output": [],
            "status": "in_progress",
        }
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        if not fields.get("stream"):
            await connection.send(200, done)
            return
        await self._events(
            connection,
            {"type": "response.created", "response": response},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        )

    async def _events(self, connection: Connection, *events: dict[str, Any]) -> None:
        await connection.begin_stream()
        for event in events:
            # The fields of an event may come in any order, and the stub writes `data:` itself.
            await connection.send_event(json.dumps(event) + f"\nevent: {event['type']}")
        await connection.end_stream()


def completion_message(answer: Answer) -> tuple[dict[str, Any], str]:
    """The message, and why it ended."""
    if not answer.tool:
        return {"role": "assistant", "content": answer.text}, "stop"
    function = {"name": answer.tool, "arguments": answer.arguments}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


EMPTY: dict[str, dict[str, object]] = {"text": {"text": ""}, "tool_use": {"input": {}}}


def message_block(answer: Answer) -> tuple[dict[str, Any], dict[str, str], str]:
    """The block, the delta that fills an empty one, and why the message ended."""
    if not answer.tool:
        return {"type": "text", "text": answer.text}, {"type": "text_delta", "text": answer.text}, "end_turn"
    block = {"type": "tool_use", "id": "toolu_1", "name": answer.tool, "input": json.loads(answer.arguments)}
    return block, {"type": "input_json_delta", "partial_json": answer.arguments}, "tool_use"


def response_item(answer: Answer) -> dict[str, Any]:
    if answer.tool:
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
        return {**call, "name": answer.tool, "arguments": answer.arguments}
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


if __name__ == "__main__":
    asyncio.run(ScriptedModel(parse_options()).run())
