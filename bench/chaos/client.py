"""A client that checks the framing of its answers and records exactly how each one ended."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from bench.chaos.requests import PATIENCE_S, PROMPTS, REAL, Behaviour, Kind

if TYPE_CHECKING:
    from bench.chaos.requests import PlannedRequest

PIECE, PIECE_S = 1 << 15, 0.05
"""Of a slow upload, which takes two to four seconds."""

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class End(Enum):
    WHOLE = "complete response"
    ERROR = "error response"
    BROKEN = "visibly broken"
    LEFT = "client disconnected"
    SILENT = "closed without response"
    UNREACHED = "no connection"
    TOO_LATE = "no end in time"


class Broken(Exception):
    """The answer ended, and its framing shows that it is incomplete."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What a client recorded of one request."""

    planned: PlannedRequest
    end: End
    status: int
    text: str
    """The model's answer, or the error."""
    began: float
    ended: float
    rig: str = ""
    """The host that was asked."""


class Client:
    """Reuses its connection while it is usable, as SDKs do."""

    def __init__(self, at: tuple[str, int], rig: str = "", address: str = "") -> None:
        """`address` is its own: hotseat shares its queue fairly among addresses."""
        self._at, self._rig, self._address = at, rig, address
        self._wire: Wire | None = None

    def go_to(self, at: tuple[str, int], rig: str) -> None:
        """Ask this host from now on."""
        if at != self._at:
            self.close()
            self._at, self._rig = at, rig

    async def ask(self, planned: PlannedRequest) -> RequestResult:
        began = time.monotonic()
        answer = Answer(planned)
        limit = planned.leaves_after_s if planned.behaviour is Behaviour.HANGS_UP else PATIENCE_S
        try:
            async with asyncio.timeout(limit):
                end = await self._converse(planned, answer)
        except TimeoutError:
            end = End.LEFT if planned.behaviour is Behaviour.HANGS_UP else End.TOO_LATE
        # A slow reader may still be reading when the other end is long gone, and would mistake that for silence.
        if end is not End.WHOLE or answer.closes or planned.behaviour is Behaviour.SLOW:
            self.close()
        return RequestResult(planned, end, answer.status, answer.said(), began, time.monotonic(), self._rig)

    async def _converse(self, planned: PlannedRequest, answer: Answer) -> End:
        try:
            reader, writer = self._wire = self._wire or await self._connected()
        except OSError:
            return End.UNREACHED
        with suppress(OSError):  # the server may have answered before it had read everything
            await send(writer, planned)
        try:
            await answer.read(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, Broken, ValueError) as problem:
            answer.problem = repr(problem)
            return End.BROKEN if answer.status else End.SILENT
        return End.WHOLE if answer.status == 200 else End.ERROR

    async def _connected(self) -> Wire:
        own = (self._address, 0) if self._address else None
        return await asyncio.open_connection(*self._at, local_addr=own)

    def close(self) -> None:
        if self._wire is not None:
            self._wire[1].transport.abort()
            self._wire = None


class Answer:
    def __init__(self, planned: PlannedRequest) -> None:
        self._planned = planned
        self.status = 0
        self.problem = ""
        self.closes = False
        self._is_stream = False
        self._body = bytearray()

    async def read(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = head.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        self.status = int(lines[0].split(" ")[1])
        self.closes = fields.get("connection") == "close"
        self._is_stream = fields.get("content-type", "").startswith("text/event-stream")
        if "content-length" in fields:
            self._body += await reader.readexactly(int(fields["content-length"]))
        elif fields.get("transfer-encoding") == "chunked":
            await self._read_chunks(reader)
        else:
            self.closes = True
            self._body += await reader.read(-1)

    async def _read_chunks(self, reader: asyncio.StreamReader) -> None:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            self._body += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                raise Broken
            if self._planned.behaviour is Behaviour.SLOW and size > 1:
                await asyncio.sleep(0.0002)
        if await reader.readexactly(2) != b"\r\n":
            raise Broken

    def said(self) -> str:
        """The model's text; any other answer as it is."""
        if not self.status:
            return self.problem
        try:
            return self._words() if self.status == 200 else str(json.loads(self._body)["error"])
        except (ValueError, KeyError, TypeError):
            return self._body[:200].decode("latin-1")

    def _words(self) -> str:
        if not self._is_stream:
            said = json.loads(self._body)
            return str(said["text"] if "text" in said else said["choices"][0]["message"]["content"])
        *events, done, _ = self._body.decode().split("\n\n")
        if done != "data: [DONE]":
            raise ValueError("a stream without its last event")
        parsed = [json.loads(event.removeprefix("data: ")) for event in events]
        if self._planned.is_obeyed:
            return " ".join(word["text"] for word in parsed)
        return "".join(delta["delta"].get("content") or "" for word in parsed for delta in word["choices"])


async def send(writer: asyncio.StreamWriter, planned: PlannedRequest) -> None:
    data = request_bytes(planned)
    if planned.kind is not Kind.UPLOAD or planned.behaviour is not Behaviour.SLOW:
        writer.write(data)
        return await writer.drain()
    for at in range(0, len(data), PIECE):
        writer.write(data[at : at + PIECE])
        await writer.drain()
        await asyncio.sleep(PIECE_S)
    return None


def request_bytes(planned: PlannedRequest) -> bytes:
    if planned.kind is Kind.UPLOAD:
        target = f"/upstream/{planned.model}/upload/{planned.id}/{planned.fault or 'none'}"
        return framed(target, "application/octet-stream", planned.upload())
    asked = {
        "model": planned.model,
        "id": planned.id,
        "fault": planned.fault,
        "words": planned.words,
        "stream": planned.kind is Kind.STREAM,
        "messages": [{"role": "user", "content": PROMPTS[planned.prompt] if planned.model == REAL else "hello"}],
        "max_tokens": planned.words,
        "temperature": 0,
    }
    return framed("/v1/chat/completions", "application/json", json.dumps(asked).encode())


def framed(target: str, kind: str, body: bytes) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
