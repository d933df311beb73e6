"""A program that a restart starts instead of the installed one: it does what the test says, at each step."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#!{interpreter} -IS
import json, os, signal, socket, sys

how = sys.argv[1]
sock = socket.socket(fileno=int(os.environ["HOTSEAT_HANDOVER"]))


def say(kind, **facts):
    sock.sendall(json.dumps({{"kind": kind, "fds": 0, **facts}}).encode() + b"\\n")


def hear():
    text, fds = b"", []
    while not text.endswith(b"\\n"):
        data, more, _, _ = socket.recv_fds(sock, 65536, 8)
        if not data:
            sys.exit()
        text, fds = text + data, fds + more
    return fds


def end_if(step):
    if how == "dies " + step:
        os._exit(3)
    if how == "hangs " + step:
        signal.pause()


end_if("before hello")
hear()
if how == "refuses":
    say("failed", reason="config.yaml: unknown key")
    signal.pause()
if how == "speaks another language":
    say("weather", temperature=21)
say("ready", management="/run/api.sock")
end_if("when ready")
connection = socket.socket(fileno=hear()[0])
end_if("before take")
connection.sendall(b"take")
end_if("after take")
say("listening")
say("listening")
say("weather", temperature=22)
while hear() is not None:
    pass
"""


def write_successor(folder: Path) -> str:
    program = folder / "successor"
    program.write_text(PROGRAM.format(interpreter=sys.executable))
    program.chmod(0o755)
    return str(program)


class OfferedServers:
    """What the guard does with an offer: whoever sends a byte first, the new process or the withdrawal, decides."""

    def __init__(self) -> None:
        self._guards_end: socket.socket | None = None
        self.is_taken = False
        self.offers = self.withdrawals = 0

    def offer(self) -> socket.socket:
        theirs, self._guards_end = socket.socketpair()
        self._guards_end.setblocking(False)
        self.offers += 1
        return theirs

    async def were_taken(self) -> None:
        assert self._guards_end is not None
        self.is_taken = bool(await asyncio.get_running_loop().sock_recv(self._guards_end, 4)) or self.is_taken
        if not self.is_taken:
            await asyncio.Event().wait()

    async def withdraw(self) -> bool:
        assert self._guards_end is not None
        self.withdrawals += 1
        if not self.is_taken:
            with suppress(BlockingIOError):
                self.is_taken = bool(self._guards_end.recv(4))
        self._guards_end.close()
        return not self.is_taken
