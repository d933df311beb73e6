"""Runs command lines and captures their output."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tests.support.hotseat import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.management import Management


@dataclass(frozen=True)
class Said:
    code: object
    out: str
    err: str


class Typed(Protocol):
    """Run a command line; returns its output when it has ended."""

    def __call__(self, *words: str) -> Said: ...


@dataclass(frozen=True)
class CommandLine:
    """A running server and a command line for it."""

    rig: Management
    url: str
    typed: Typed

    async def type(self, *words: str) -> Said:
        return await asyncio.to_thread(self.typed, *words, "--url", self.url)


def completed(words: str, url: str) -> str:
    """The shell completions of the word being typed."""
    env = {**os.environ, "_HOTSEAT_COMPLETE": "complete_bash", "HOTSEAT_URL": url}
    env |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return subprocess.run([PROGRAM], env=env, capture_output=True, text=True).stdout


DRIPPING = b"." * 600
"""At the end of an answer: it is sent so slowly that the answer takes seconds, while no byte lets the client wait."""


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A program that says the same to everybody; without a whole line it keeps the connection open."""
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip(connection: socket.socket) -> None:
            with suppress(OSError):
                connection.sendall(answer.removesuffix(DRIPPING))
                for byte in DRIPPING:
                    connection.sendall(bytes([byte]))
                    threading.Event().wait(0.005)  # less than the time limit of any command
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

        def say(connection: socket.socket) -> None:
            if b"\r\n" not in answer:
                return connection.sendall(answer)
            connection.recv(65536)
            connection.sendall(answer)
            return connection.shutdown(socket.SHUT_WR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    if answer.endswith(DRIPPING):
                        threading.Thread(target=drip, args=(connection,), daemon=True).start()
                    else:
                        with suppress(OSError):  # the client has read enough of it
                            say(connection)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        server.join(60)  # else it might accept a connection after all were closed
    for connection in kept:
        connection.close()
