"""How long does a new connection wait for its answer? A process of its own: no other client's work delays it.

    python -I -S probe.py PORT

It asks for something that needs no model, on a new connection every few milliseconds, until its input is closed.
Then it prints a JSON list: when each connection began, how long it took, and what was wrong with it.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

EVERY_S = 0.005
PATIENCE_S = 10.0
REQUEST = b"GET /hotseat/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 "


def main(port: int) -> None:
    seen = []
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began = time.monotonic()
        problem = problem_of(port)
        seen.append((began, time.monotonic() - began, problem))
    json.dump(seen, sys.stdout)


def problem_of(port: int) -> str:
    """Why there is no answer; empty if there is one."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            connection.sendall(REQUEST)
            said = answer(connection)
    except OSError as problem:
        return repr(problem)
    return "" if said.startswith(OK) else f"it was answered with {said[:40]!r}"


def answer(connection: socket.socket) -> bytes:
    """Everything until its end."""
    said = b""
    while piece := connection.recv(4096):
        said += piece
    return said


if __name__ == "__main__":
    main(int(sys.argv[1]))
