"""More clients than anybody can serve: an honest refusal, bounded memory, and nothing left when they leave."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S, chat_body
from tests.support.processes import peak_memory
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.hotseat import Hotseat

MANY = 6_000
MOST_EACH = 24 << 10
"""Bytes that one waiting request may take; a connection, its request, its ticket."""


@pytest.fixture
def descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def ask(stack: ExitStack, rig: Hotseat, number: int) -> socket.socket:
    """From one of two addresses, since one may have half of the connections only."""
    body = json.dumps(chat_body("a", 4)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    source = (f"127.0.0.{2 + number % 2}", 0)
    client = stack.enter_context(socket.create_connection(("127.0.0.1", rig.port), PATIENCE_S, source))
    client.sendall(head.encode() + body)
    return client


def waiting(rig: Hotseat) -> int:
    return int(rig.call("GET", "/hotseat/models").json()["models"][0]["waiting"])


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("descriptors")
def test_thousands_wait_and_leave(serve: Callable[..., Hotseat]) -> None:
    """They cost a few KiB each, the next one is refused, and after they hang up the queue is empty."""
    settings = {"scheduler": {"maxQueue": MANY * 7 // 6}, "logLevel": "warn"}  # two clients may have six sevenths
    rig = serve({"a": stub("a", "--load-seconds 600", healthCheckTimeout=600)}, **settings)
    before = peak_memory(rig.process.pid)
    with ExitStack() as stack:
        for number in range(MANY):
            ask(stack, rig, number)
        eventually(lambda: waiting(rig) == MANY)
        one_more = ask(stack, rig, MANY).recv(1000)
        grown = peak_memory(rig.process.pid) - before
    eventually(lambda: waiting(rig) == 0)

    assert one_more.startswith(b"HTTP/1.1 429 ")
    assert b"Retry-After: " in one_more
    assert grown < MANY * MOST_EACH
