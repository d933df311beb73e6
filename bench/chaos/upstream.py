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
import threading
import time
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from bench.chaos.echo import echo, exactly
from bench.chaos.speaker import LATE_S, Speaker, framed

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
