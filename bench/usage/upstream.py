"""A model server that reports as many tokens as the request asks for, in the format of each API.

It is a part of the run, or a program of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bench.usage.clients import Counts

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The first line and the body; raises IncompleteReadError if it breaks off."""
    head = await reader.readuntil(b"\r\n\r\n")
    first = head.partition(b"\r\n")[0]
    if found := _LENGTH.search(head):
        return first, await reader.readexactly(int(found[1]))
    if b"transfer-encoding: chunked" not in head.lower():
        return first, b""
    return first, await _read_chunks(reader)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CHAT, COMPLETION, MESSAGES, OLLAMA = "/v1/chat/completions", "/completion", "/v1/messages", "/api/chat"
FORMATS = ("openai", "openai_stream", "llama_stream", "llama_native", "anthropic", "anthropic_stream", "ollama_stream")
WANTED = re.compile(rb"counts=(\w+):(\d+):(\d+):(\d+)")
SPOKEN = "word " * 20


def request(form: str, counts: Counts) -> tuple[str, dict[str, Any]]:
    """Its path and its body, which tells the upstream what to report."""
    text = f"counts={form}:{counts.prompt}:{counts.cached}:{counts.completion}"
    if form == "llama_native":
        return COMPLETION, {"model": counts.model, "prompt": text}
    path = MESSAGES if form.startswith("anthropic") else OLLAMA if form.startswith("ollama") else CHAT
    body = {"model": counts.model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    return path, {**body, "stream": form.endswith("_stream")}


def response(body: bytes) -> tuple[bool, list[bytes]]:
    """Whether it is a stream, and its parts."""
    found = WANTED.search(body)
    assert found, body
    form, prompt, cached, completion = found[1].decode(), int(found[2]), int(found[3]), int(found[4])
    return form.endswith("_stream"), [part.encode() for part in FORMS[form](prompt, cached, completion)]


def _usage(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def _timings(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    computed = {"cache_n": cached, "prompt_n": prompt - cached, "prompt_ms": 1.5}
    return {**computed, "predicted_n": completion, "predicted_ms": 2.5, "predicted_per_second": 99.5}


def _events(*events: dict[str, Any] | str) -> list[str]:
    return [f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events]


def _delta(reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": SPOKEN}, "finish_reason": reason}]}


def _openai(*counts: int) -> list[str]:
    return [json.dumps({"choices": [{"message": {"content": SPOKEN}}], "usage": _usage(*counts)})]


def _openai_stream(*counts: int) -> list[str]:
    return _events(_delta(), _delta("stop"), {"choices": [], "usage": _usage(*counts)}, "[DONE]")


def _llama_stream(*counts: int) -> list[str]:
    """Nobody asked for usage, but llama-server always reports timings."""
    return _events(_delta(), {**_delta("stop"), "timings": _timings(*counts)}, "[DONE]")


def _llama_native(*counts: int) -> list[str]:
    return [json.dumps({"content": SPOKEN, "stop": True, "timings": _timings(*counts)})]


def _anthropic(prompt: int, cached: int, completion: int) -> list[str]:
    usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": completion}
    return [json.dumps({"type": "message", "content": [{"type": "text", "text": SPOKEN}], "usage": usage})]


def _anthropic_stream(prompt: int, cached: int, completion: int) -> list[str]:
    usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": 0}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": SPOKEN}}
    return _events(
        {"type": "message_start", "message": {"role": "assistant", "usage": usage}},
        *[delta] * 6,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": completion}},
        {"type": "message_stop"},
    )


FORMS: dict[str, Callable[[int, int, int], list[str]]] = {
    "openai": _openai,
    "openai_stream": _openai_stream,
    "llama_stream": _llama_stream,
    "llama_native": _llama_native,
    "anthropic": _anthropic,
    "anthropic_stream": _anthropic_stream,
    "ollama_stream": _openai_stream,  # hotseat asks the upstream in OpenAI's API
}


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def upstream(port: int = 0) -> AsyncIterator[int]:
    """Its port."""
    server = await asyncio.start_server(_serve, "127.0.0.1", port)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            _, body = await read_message(reader)
            is_stream, parts = response(body)
            for piece in _stream(parts) if is_stream else [WHOLE % len(parts[0]) + parts[0]]:
                writer.write(piece)
                await writer.drain()
    writer.close()


def _stream(parts: list[bytes]) -> list[bytes]:
    """As real servers: head, events and end are written one after another."""
    return [STREAM, *map(chunk, parts), b"0\r\n\r\n"]


async def _main(port: int) -> None:
    async with upstream(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
