"""The conformance kit's stub upstream, extended by Anthropic's API at /v1/messages.

It returns the same text there as on /v1/chat/completions and misbehaves on the same demands.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.conformance.stub_upstream import Connection, Request, Stub, parse_options, tokens


class TwoDialects(Stub):
    def __init__(self, options: Any) -> None:  # argparse's namespace
        super().__init__(options)
        self._routes["POST", "/v1/messages"] = self._messages

    async def _messages(self, request: Request, connection: Connection) -> None:
        fields = request.fields()
        words = tokens(self._options.name, fields["messages"][-1]["content"])
        if fields.get("stream"):
            await self._stream(fields["model"], words, connection)
            return
        await connection.pause(self._options.token_delay * len(words))
        await connection.send(200, message(fields["model"], "".join(words)))

    async def _stream(self, model: str, words: list[str], connection: Connection) -> None:
        await connection.begin_stream()
        await say(connection, "message_start", message={**message(model, ""), "content": [], "stop_reason": None})
        await say(connection, "content_block_start", index=0, content_block={"type": "text", "text": ""})
        for position, word in enumerate(words, start=1):
            await connection.pause(self._options.token_delay)
            await say(connection, "content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            if self._options.die_mid_stream and position == len(words) // 2:
                self._exit(1, "told to die mid-stream")
        await say(connection, "content_block_stop", index=0)
        await say(connection, "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": len(words)})
        await say(connection, "message_stop")
        await connection.end_stream()


def message(model: str, text: str) -> dict[str, Any]:
    return {
        "id": "msg_stub",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 8},
    }


async def say(connection: Connection, kind: str, **fields: object) -> None:
    # The fields of an event may come in any order, and the stub writes `data:` itself.
    await connection.send_event(json.dumps({"type": kind, **fields}) + f"\nevent: {kind}")


if __name__ == "__main__":
    asyncio.run(TwoDialects(parse_options()).run())
