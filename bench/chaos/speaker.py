"""One answer of upstream.py, complete or broken as its request says. Standard library only."""

from __future__ import annotations

import json
import os
import socket
import struct
import time

RESET = struct.pack("ii", 1, 0)
SLOW_S, LATE_S = 0.003, 600.0
BREAKS = ("reset-mid", "fin-mid", "garble-mid", "stall-mid", "die-mid", "close-reset")


class Speaker:
    def __init__(self, connection: socket.socket, text: str, fault: str, *, is_stream: bool) -> None:
        self._connection, self._fault = connection, fault
        self._pieces = events(text) if is_stream else [json.dumps({"text": text}).encode()]
        self._head, self._pieces = chunked(self._pieces) if is_stream else with_length(self._pieces[0])
        if fault.startswith("close-"):
            self._head, self._pieces = until_closed(text, is_stream=is_stream)

    def speak(self) -> None:
        match self._fault:
            case "late":
                time.sleep(LATE_S)
            case "reset-early" | "fin-early" | "die-early":
                return self._leave(self._fault)
            case "garble-head":
                self._connection.sendall(b"\x16\x03\x01 SSH-2.0 200 what\r\n\r\n")
                return self._leave("fin")
            case "error":
                return self._connection.sendall(framed(b'{"error": "told to fail"}', 500))
        self._connection.sendall(self._head)
        half = len(self._pieces) // 2
        for n, piece in enumerate(self._pieces):
            if n == half and self._fault in BREAKS:
                return self._break()
            if self._fault == "slow":
                time.sleep(SLOW_S)
            self._connection.sendall(piece)
        return self._leave("fin") if self._fault == "close-end" else None

    def _break(self) -> None:
        if self._fault == "garble-mid":
            self._connection.sendall(b"zz\r\nnonsense\r\n")
        if self._fault == "stall-mid":
            time.sleep(LATE_S)
        self._leave(self._fault)

    def _leave(self, how: str) -> None:
        if how.startswith("die"):
            os._exit(7)
        if how.startswith("reset") or how == "close-reset":
            # Closing at once would discard what was just sent and not delivered yet.
            time.sleep(0.005)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._connection.shutdown(socket.SHUT_RDWR) if how.startswith("fin") else self._connection.close()
        raise ConnectionResetError(how)


def framed(body: bytes, status: int) -> bytes:
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def events(text: str) -> list[bytes]:
    return [*(b"data: %b\n\n" % json.dumps({"text": word}).encode() for word in text.split()), b"data: [DONE]\n\n"]


def chunked(pieces: list[bytes]) -> tuple[bytes, list[bytes]]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head, [*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def with_length(body: bytes) -> tuple[bytes, list[bytes]]:
    """In pieces, so that there is a middle to cut."""
    head = framed(body, 200)[: -len(body)]
    step = max(1, len(body) // 8)
    return head, [body[at : at + step] for at in range(0, len(body), step)]


def until_closed(text: str, *, is_stream: bool) -> tuple[bytes, list[bytes]]:
    kind = b"text/event-stream" if is_stream else b"application/json"
    pieces = events(text) if is_stream else with_length(json.dumps({"text": text}).encode())[1]
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nConnection: close\r\n\r\n" % kind, pieces
