"""A process that imports hotseat once and then starts it many times, each time as a fork of itself.

It runs alone: `forked_hotseat.py` tells it over a socket what to start, and asks how a process ended.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from importlib import import_module
from typing import Any

MODULES = (
    "hotseat.cli.commands",
    "hotseat.app",
    "hotseat.startup.management",
    "hotseat.fleet.jetstream.store",
    "uvloop",
    "uvicorn.protocols.http.httptools_impl",
)
"""All that a start imports, here or there."""


def main(control: socket.socket) -> None:
    import_program()
    while True:
        message, files, _, _ = socket.recv_fds(control, 1 << 20, maxfds=1)
        if not message:
            return
        order = json.loads(message)
        answer = started(order, files[0], control) if "argv" in order else ended(order["pid"])
        control.send(json.dumps(answer).encode())


def import_program() -> None:
    """A fork shares what is frozen as long as nobody changes it."""
    for module in MODULES:
        import_module(module)

    gc.collect()
    gc.freeze()


def started(order: dict[str, Any], output: int, control: socket.socket) -> int:
    pid = os.fork()
    if pid == 0:
        control.close()
        become_hotseat(order, output)
    os.close(output)
    return pid


def become_hotseat(order: dict[str, Any], output: int) -> None:
    """Never returns: the command ends with SystemExit, which ends this process."""
    from hotseat.cli import main

    os.environ.clear()
    os.environ.update(order["environ"])
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    os.close(output)
    sys.argv = order["argv"]
    main()


def ended(pid: int) -> int | None:
    """The exit code as `subprocess` gives it, or None while the process runs."""
    same, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if same else None


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # so that the process that goes on has no parent
    main(socket.socket(fileno=int(sys.argv[1])))
