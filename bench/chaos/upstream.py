"""A scripted model server: its answers can be checked by a rule, and it fails as each request or its folder says.

    python -I -S -c PROGRAM REPOSITORY PORT MODEL FOLDER

It records in FOLDER/record the requests it served, websocket messages among them, and the servers that were alive at
its start. FOLDER/MODEL says how its next start goes: `hang`, `exit`, `slow` or `steal`. Uses the standard library and
threads only, to start fast.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import struct
import threading
import time
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FINAL, OPCODE, LENGTH = 0x80, 0x0F, 0x7F
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
TWO_BYTES, EIGHT_BYTES = 126, 127


def echo(connection: socket.socket, incoming: BinaryIO, fields: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Return when the client has closed the websocket. `note` gets each message before it is sent back."""
    connection.sendall(handshake(fields["sec-websocket-key"]))
    while True:
        opcode, data = read_frame(incoming)
        if opcode == TEXT:
            note(data.decode())
        connection.sendall(frame(PONG if opcode == PING else opcode, data))
        if opcode == CLOSE:
            return


def handshake(key: str) -> bytes:
    accepted = b64encode(hashlib.sha1(key.encode() + MAGIC, usedforsecurity=False).digest())
    head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    return head + b"Sec-WebSocket-Accept: %b\r\n\r\n" % accepted


def read_frame(incoming: BinaryIO) -> tuple[int, bytes]:
    """Of a client, and therefore masked; EOFError if it left without a word."""
    first, second = exactly(incoming, 2)
    length = second & LENGTH
    if length == TWO_BYTES:
        (length,) = struct.unpack("!H", exactly(incoming, 2))
    elif length == EIGHT_BYTES:
        (length,) = struct.unpack("!Q", exactly(incoming, 8))
    mask = exactly(incoming, 4)
    return first & OPCODE, unmasked(exactly(incoming, length), mask)


def unmasked(data: bytes, mask: bytes) -> bytes:
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(whole)).to_bytes(len(data))


def exactly(incoming: BinaryIO, length: int) -> bytes:
    data = incoming.read(length)
    if len(data) < length:
        raise EOFError
    return data


def frame(opcode: int, data: bytes) -> bytes:
    first = FINAL | opcode
    if len(data) < TWO_BYTES:
        return struct.pack("!BB", first, len(data)) + data
    if len(data) < 1 << 16:
        return struct.pack("!BBH", first, TWO_BYTES, len(data)) + data
    return struct.pack("!BBQ", first, EIGHT_BYTES, len(data)) + data


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


PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from bench.chaos.upstream import main; main(*sys.argv[1:])"
"""Starts it without the packages that are installed."""


class Request(NamedTuple):
    line: str
    fields: dict[str, str]
    """By lower-case names."""
    body: bytes


class Server:
    def __init__(self, port: int, model: str, folder: str) -> None:
        self._port, self._model, self._folder = port, model, folder
        self._record = os.open(f"{folder}/record", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._behaviour = self._read_behaviour()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        self.note("born", pid=os.getpid(), others=self._running_models())
        self._start_detached_child()
        if self._behaviour == "exit":
            print("told to exit at the start", flush=True)
            os._exit(1)
        if self._behaviour == "slow":
            time.sleep(1.0)
        if self._behaviour == "steal":
            self._let_be_stolen()
        with socket.create_server(("127.0.0.1", self._port), backlog=128) as listener:
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def note(self, what: str, **facts: object) -> None:
        line = json.dumps({"what": what, "model": self._model, "at": time.monotonic(), **facts}) + "\n"
        os.write(self._record, line.encode())

    def _read_behaviour(self) -> str:
        try:
            with open(f"{self._folder}/{self._model}") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _running_models(self) -> list[str]:
        """The models of running servers, by their notes in the folder; then adds a note of its own."""
        alive = f"{self._folder}/alive"
        found = []
        for name in os.listdir(alive):
            pid, _, model = name.partition(".")
            if takes_memory(pid):
                found.append(model)
            else:
                with suppress(FileNotFoundError):  # another server that starts has removed it
                    os.unlink(f"{alive}/{name}")
        with open(f"{alive}/{os.getpid()}.{self._model}", "w"):
            return found

    def _start_detached_child(self) -> None:
        """Start a child in its own session that ignores SIGTERM: it must not outlive this server either."""
        if os.fork():
            return
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(self._record)
        while True:
            signal.pause()

    def _let_be_stolen(self) -> None:
        """Wait until another process has taken our port."""
        with open(f"{self._folder}/stolen.{self._port}", "w"):
            pass
        while not os.path.exists(f"{self._folder}/taken.{self._port}"):
            time.sleep(0.01)

    # One connection

    def _converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as incoming:
            try:
                while request := read_request(incoming):
                    if "upgrade" in request.fields:
                        return echo(connection, incoming, request.fields, self._note_message)
                    self._answer(connection, request.line, request.body)
            except (OSError, EOFError):
                return None  # the client is gone, or we closed the connection
        return None

    def _note_message(self, text: str) -> None:
        """Its words are MODEL/ID/NUMBER, as in every other answer."""
        self.note("ran", id=text.split("/")[1], pid=os.getpid())

    def _answer(self, connection: socket.socket, line: str, body: bytes) -> None:
        method, target, _ = line.split(" ")
        if method == "GET":
            if self._behaviour == "hang" and target == "/health":
                time.sleep(LATE_S)
            return connection.sendall(framed(b"{}", 200 if target == "/health" else 404))
        if target.startswith("/upload/"):
            _, _, name, fault = target.split("/")
            text, is_stream = hashlib.sha256(body).hexdigest(), False
        else:
            asked = json.loads(body)
            name, fault, is_stream = asked["id"], asked["fault"], asked["stream"]
            text = " ".join(f"{self._model}/{name}/{n}" for n in range(asked["words"]))
        self.note("ran", id=name, pid=os.getpid())
        return Speaker(connection, text, fault, is_stream=is_stream).speak()


def takes_memory(pid: str) -> bool:
    """A process that was killed has none, though it is listed until its parent learns of its end."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def read_request(incoming: BinaryIO) -> Request | None:
    line = incoming.readline().decode("latin-1").strip()
    if not line:
        return None
    fields = {}
    while field := incoming.readline().decode("latin-1").strip():
        name, _, value = field.partition(":")
        fields[name.lower()] = value.strip()
    return Request(line, fields, exactly(incoming, int(fields.get("content-length", 0))))


def main(port: str, model: str, folder: str, *_: str) -> None:
    """What follows changes nothing: the command differs then."""
    Server(int(port), model, folder).run()
