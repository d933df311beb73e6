"""Ten thousand slow clients against the installed program."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S
from tests.support.hotseat import Hotseat
from tests.support.processes import peak_memory, reset_peak_memory
from tests.support.relay_rig import get
from tests.support.stubs import stub
from tests.support.waiting import eventually

from hotseat.daemon.file_limit import file_limit, most_connections, raise_file_limit
from hotseat.settings import KiB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HIGHEST_LIMIT = file_limit(*resource.getrlimit(resource.RLIMIT_NOFILE))
CLIENTS = min(10_000, (most_connections(HIGHEST_LIMIT) or 20_000) - 50)
"""As many as the machine's limits allow, which is all of them unless these are low."""
SOURCES = 4
"""Addresses that they come from: one may not have so many connections."""
MOST_EACH = 16 * KiB
"""What SECURITY.md promises; the bytes that they sent are in it."""

HALF_A_HEAD = get("/v1/models")[:-2] + b"X-Rest: " + b"a" * KiB
HALF_A_BODY = get("/v1/chat/completions", "Content-Length: 100000", method="POST") + b"a" * 16 * KiB
UNREAD_ANSWERS = get("/x?model=nobody") * 20
SENT = (HALF_A_HEAD, HALF_A_BODY, UNREAD_ANSWERS, b"")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Hotseat]:
    with Hotseat({"models": {"a": stub("a")}}, tmp_path) as rig:
        yield rig


@pytest.fixture
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connected(rig: Hotseat, number: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", rig.port), PATIENCE_S, (f"127.0.0.{2 + number % SOURCES}", 0))
    client.sendall(SENT[number // SOURCES % len(SENT)])
    return client


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_slow_clients_take_little_memory(rig: Hotseat) -> None:
    """Memory per slow client is bounded, and other requests are served meanwhile."""
    rig.load("a")
    reset_peak_memory(rig.process.pid)
    before = peak_memory(rig.process.pid)
    with ExitStack() as clients:
        for number in range(CLIENTS):
            clients.enter_context(connected(rig, number))
        served = [rig.call("GET", path).status for path in ("/health", "/upstream/a/slots")]
        taken = peak_memory(rig.process.pid) - before
    eventually(lambda: rig.call("GET", "/health").status == 200)

    assert served == [200, 200]
    assert taken < CLIENTS * MOST_EACH
