"""A small, controllable stand-in for llama-server.

It answers deterministically, misbehaves on demand and writes what happened to it
as JSON lines, so that a check can compare what a client saw with what took place.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

DEFAULT_TOKENS = 8
JSON = "application/json"


def tokens(name: str, prompt: str, count: int = DEFAULT_TOKENS) -> list[str]:
    """The answer of model `name` to `prompt`: the same for unary and streamed requests."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return [name, *(f" {digest[i % 60 : i % 60 + 4]}" for i in range(count - 1))]


def embedding(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:4]]


def error(message: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": "stub_error", "code": code}}


class ClientGone(Exception):
    """The other side closed the connection while its answer was being made."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def fields(self) -> dict[str, Any]:
        try:
            parsed = json.loads(self.body)
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, label: str) -> None:
        self._reader, self._writer, self._label = reader, writer, label

    async def receive(self) -> Request | None:
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.rstrip("\r\n").split("\r\n")
            method, target, _ = request_line.split(" ")
            headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in lines)]
            request = Request(method, target, headers, b"")
            return Request(method, target, headers, await self._receive_body(request))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _receive_body(self, request: Request) -> bytes:
        if (request.header("transfer-encoding") or "").lower() != "chunked":
            return await self._reader.readexactly(int(request.header("content-length") or 0))
        body = b""
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return body

    async def send(self, status: int, body: object) -> None:
        payload = json.dumps(body).encode()
        self._write_head(status, JSON, f"Content-Length: {len(payload)}")
        await self._flush(payload)

    async def begin_stream(self) -> None:
        self._write_head(200, "text/event-stream", "Transfer-Encoding: chunked")
        await self._flush()

    async def send_event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        await self._flush(b"%x\r\n%s\r\n" % (len(event), event))

    async def end_stream(self) -> None:
        await self._flush(b"0\r\n\r\n")

    async def pause(self, seconds: float) -> None:
        """Sleep, but notice within a moment when the client leaves."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.02))
            self._raise_if_gone()

    def close(self) -> None:
        self._writer.close()

    def _write_head(self, status: int, content_type: str, framing: str) -> None:
        lines = [f"HTTP/1.1 {status} Stub", f"Content-Type: {content_type}", framing, f"X-Stub: {self._label}"]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())

    async def _flush(self, data: bytes = b"") -> None:
        self._raise_if_gone()
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as broken:
            raise ClientGone from broken

    def _raise_if_gone(self) -> None:
        if self._reader.at_eof() or self._reader.exception():
            raise ClientGone


class Stub:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._ready = False
        self._inferences = 0
        self._requests = 0
        self._stopping = asyncio.Event()
        self._routes: dict[tuple[str, str], Callable[[Request, Connection], Awaitable[None]]] = {
            ("GET", "/slots"): self._slots,
            ("GET", "/props"): self._props,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._completions,
            ("POST", "/v1/embeddings"): self._embeddings,
            ("POST", "/completion"): self._native_completion,
        }

    async def run(self) -> NoReturn:
        self._record("started")
        if self._options.exit_on_start:
            self._exit(1, "told to exit on start")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)
        try:
            await asyncio.start_server(self._serve, "127.0.0.1", self._options.port, limit=2**20)
        except OSError as refused:
            self._exit(1, str(refused))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._options.load_seconds)
        if not self._stopping.is_set():
            self._record("ready")
            self._ready = True
        await self._stopping.wait()
        await asyncio.sleep(self._options.stop_seconds)
        self._exit(0, "stopped")

    def _on_sigterm(self) -> None:
        self._record("sigterm")
        if not self._options.ignore_sigterm:
            self._stopping.set()

    def _exit(self, code: int, reason: str) -> NoReturn:
        """Leave at once: whatever is still being answered is cut off."""
        self._record("exited", code=code)
        with suppress(OSError):  # the reader of stderr may be dead already
            print(f"stub {self._options.name}: {reason}", file=sys.stderr, flush=True)
        os._exit(code)

    def _record(self, event: str, **facts: object) -> None:
        if not self._options.record:
            return
        fact = {"event": event, "name": self._options.name, "pid": os.getpid(), "time": time.monotonic(), **facts}
        with open(self._options.record, "ab", buffering=0) as record:  # one write per line: stubs share the file
            record.write(json.dumps(fact).encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._options.name)
        try:
            while request := await connection.receive():
                if request.path == "/health":
                    await self._health(connection)
                else:
                    await self._observed(request, connection)
        except ClientGone:
            pass
        finally:
            connection.close()

    async def _observed(self, request: Request, connection: Connection) -> None:
        self._requests += 1
        facts = {"request": self._requests, "method": request.method, "target": request.target}
        self._record("request_started", **facts)
        try:
            await self._answer(request, connection)
        except ClientGone:
            self._record("client_gone", **facts)
            raise
        self._record("request_finished", **facts)

    async def _health(self, connection: Connection) -> None:
        if self._options.hang_health:
            await connection.pause(float("inf"))
        if not self._ready:
            await connection.send(503, error("Loading model", 503))
        else:
            await connection.send(200, {"status": "ok"})

    async def _answer(self, request: Request, connection: Connection) -> None:
        key = self._options.api_key
        route = self._routes.get((request.method, request.path))
        if key and request.header("authorization") != f"Bearer {key}":
            await connection.send(401, error("Invalid API Key", 401))
        elif not self._ready:
            await connection.send(503, error("Loading model", 503))
        elif request.path.startswith("/echo/"):
            await self._echo(request, connection)
        elif route is None:
            await connection.send(404, error(f"no {request.method} {request.path} here", 404))
        elif request.method == "POST" and (status := self._told_to_fail(request)):
            await connection.send(status, error("failed on demand", status))
        else:
            await route(request, connection)

    def _told_to_fail(self, request: Request) -> int | None:
        if self._inferences == self._options.die_after_requests:
            self._exit(1, "told to die instead of answering")
        self._inferences += 1
        return request.fields().get("fail")

    async def _echo(self, request: Request, connection: Connection) -> None:
        await connection.send(
            200,
            {
                "name": self._options.name,
                "method": request.method,
                "target": request.target,
                "headers": request.headers,
                "sha256": hashlib.sha256(request.body).hexdigest(),
                "length": len(request.body),
            },
        )

    async def _slots(self, request: Request, connection: Connection) -> None:
        await connection.send(200, [{"id": n, "is_processing": False} for n in range(self._options.slots)])

    async def _props(self, request: Request, connection: Connection) -> None:
        env = {key: value for key, value in os.environ.items() if key.startswith("STUB_")}
        await connection.send(200, {"name": self._options.name, "pid": os.getpid(), "env": env})

    async def _chat(self, request: Request, connection: Connection) -> None:
        prompt = "\n".join(message["content"] for message in request.fields().get("messages", []))
        await self._generate(
            request,
            connection,
            prompt,
            "chat.completion",
            lambda text, last: {
                "index": 0,
                "delta" if request.fields().get("stream") else "message": {"role": "assistant", "content": text},
                "finish_reason": "stop" if last else None,
            },
        )

    async def _completions(self, request: Request, connection: Connection) -> None:
        prompt = request.fields().get("prompt", "")
        await self._generate(
            request,
            connection,
            prompt,
            "text_completion",
            lambda text, last: {
                "index": 0,
                "text": text,
                "finish_reason": "stop" if last else None,
            },
        )

    async def _generate(
        self,
        request: Request,
        connection: Connection,
        prompt: str,
        kind: str,
        choice: Callable[[str, bool], dict[str, Any]],
    ) -> None:
        fields = request.fields()
        words = tokens(self._options.name, prompt, fields.get("max_tokens", DEFAULT_TOKENS))
        frame = {"id": f"stub-{self._inferences}", "created": int(time.time()), "model": fields.get("model")}
        if not fields.get("stream"):
            await connection.pause(self._options.token_delay * len(words))
            usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
            answer = {**frame, "object": kind, "choices": [choice("".join(words), True)]}
            await connection.send(200, {**answer, "usage": usage, "received": fields})
            return
        await connection.begin_stream()
        for position, word in enumerate(words, start=1):
            await connection.pause(self._options.token_delay)
            chunk = {**frame, "object": f"{kind}.chunk", "choices": [choice(word, position == len(words))]}
            await connection.send_event(json.dumps(chunk))
            if self._options.die_mid_stream and position == len(words) // 2:
                self._exit(1, "told to die mid-stream")
        await connection.send_event("[DONE]")
        await connection.end_stream()

    async def _native_completion(self, request: Request, connection: Connection) -> None:
        fields = request.fields()
        words = tokens(self._options.name, fields.get("prompt", ""), fields.get("n_predict", DEFAULT_TOKENS))
        await connection.pause(self._options.token_delay * len(words))
        await connection.send(200, {"content": "".join(words), "stop": True, "received": fields})

    async def _embeddings(self, request: Request, connection: Connection) -> None:
        if not self._options.embedding:
            await connection.send(501, error("This server does not support embeddings", 501))
            return
        given = request.fields().get("input", "")
        inputs = given if isinstance(given, list) else [given]
        await connection.send(
            200,
            {
                "object": "list",
                "data": [{"object": "embedding", "index": n, "embedding": embedding(i)} for n, i in enumerate(inputs)],
                "model": request.fields().get("model"),
                "usage": {"prompt_tokens": len(inputs), "total_tokens": len(inputs)},
            },
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--port", type=int, required=True)
    option("--name", required=True)
    option("--load-seconds", type=float, default=0, metavar="S", help="answer 503 for S seconds first")
    option("--stop-seconds", type=float, default=0, metavar="S", help="take S seconds to exit after SIGTERM")
    option("--hang-health", action="store_true", help="accept GET /health but never answer it")
    option("--exit-on-start", action="store_true", help="exit with code 1 at once")
    option("--ignore-sigterm", action="store_true", help="note SIGTERM and carry on")
    option("--api-key", metavar="K", help="require `Authorization: Bearer K` except on /health")
    option("--embedding", action="store_true", help="serve /v1/embeddings")
    option("--slots", type=int, default=1, metavar="N", help="how many slots GET /slots reports")
    option("--token-delay", type=float, default=0, metavar="S", help="seconds each token takes")
    option("--record", metavar="FILE", help="append lifecycle facts to FILE as JSON lines")
    option("--die-mid-stream", action="store_true", help="exit halfway through a streamed answer")
    option("--die-after-requests", type=int, metavar="N", help="answer N POST requests, exit on the next one")
    return parser.parse_args()


async def main() -> NoReturn:
    await Stub(parse_options()).run()


if __name__ == "__main__":
    asyncio.run(main())
