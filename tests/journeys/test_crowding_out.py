"""A process with few descriptors: whoever has the least rights takes all that it can get, and others are served."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

FEW = 1024
"""The limit of descriptors in many containers."""
LOW, OTHER, OPS = "low-low-low-low", "other-other-other", "ops-ops-ops-ops"
KEYS = [
    {"key": LOW, "role": "inference", "name": "low"},
    {"key": OTHER, "role": "inference", "name": "other"},
    {"key": OPS, "role": "operate", "name": "ops"},
]
CONFIG = {"models": {"a": stub("a"), "b": stub("b")}, "apiKeys": KEYS, "logLevel": "warn"}
UNDER_LIMIT = ("sh", "-c", f'ulimit -n {FEW}; exec "$0" "$@"', str(PROGRAM))
ATTEMPTS = 600
SOURCES = 12
"""Addresses, none of which may have more than half of the connections."""


def feed(stack: ExitStack, rig: Hotseat, number: int) -> bool:
    """Is it open?"""
    source = (f"127.0.0.{2 + number % SOURCES}", 0)
    try:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", rig.port), PATIENCE_S, source))
        client.sendall(f"GET /models/sse HTTP/1.1\r\nHost: localhost\r\nx-api-key: {LOW}\r\n\r\n".encode())
        return client.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def of(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_feeds_of_one_key_leave_descriptors_for_others(tmp_path: Path) -> None:
    """Others are answered, models are loaded, operators follow what happens, and `/health` answers."""
    with Hotseat(CONFIG, tmp_path, program=UNDER_LIMIT) as rig, ExitStack() as stack:
        opened = sum(feed(stack, rig, number) for number in range(ATTEMPTS))
        while_full = [rig.call("GET", "/hotseat/queue", **of(OPS)).status, rig.call("GET", "/health").status]
        eventually(lambda: rig.chat("a", 4, **of(OTHER)).status == 200)
        answers = {
            "another key": rig.chat("a", 4, **of(OTHER)).status,
            "the same key": rig.chat("b", 4, **of(LOW)).status,
            "an operator": rig.call("GET", "/hotseat/queue", **of(OPS)).status,
            "health": rig.call("GET", "/health").status,
        }

    assert while_full == [200, 200]
    assert answers == dict.fromkeys(answers, 200)
    assert 32 <= opened < FEW // 10
