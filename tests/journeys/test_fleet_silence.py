"""A host is stopped while it serves requests of another host's clients: real processes, and a real NATS server."""

from __future__ import annotations

import http.client
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fleet_journey import CONNECT_S, Hosts, names_at, nats_cluster
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import Hotseat
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import Stream

pytestmark = [pytest.mark.minutes, pytest.mark.timeout(240)]

LONG = 2_000
"""So many tokens take minutes."""
SILENT_S = 60.0
"""A lease and three questions without answer take 20 s, on a busy machine three times that; the stream takes longer."""


@contextmanager
def fleet(folder: Path, program: type[Hotseat] = ForkedHotseat) -> Iterator[Hosts]:
    with ExitStack() as stack:
        hosts = Hosts(folder, stack.enter_context(nats_cluster(folder / "nats", 1)), stack, program)
        hosts.start("a", {"near": stub("near")})
        hosts.start("b", {"far": stub("far", "--token-delay 0.1")})
        hosts.until_connected()
        yield hosts


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with fleet(tmp_path) as hosts:
        yield hosts


@contextmanager
def stopped(host: Hotseat) -> Iterator[None]:
    host.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        host.process.send_signal(signal.SIGCONT)


def in_progress(host: Hotseat) -> list[dict[str, Any]]:
    return list(host.call("GET", "/hotseat/requests").json()["in_progress"])


def ended_cleanly(stream: Stream) -> bool:
    try:
        return stream.read().done
    except (http.client.HTTPException, OSError):
        return False


def rest_of(stream: Stream) -> Iterator[str]:
    """Until it ends or breaks; fails if the client has to give up."""
    try:
        with suppress(http.client.HTTPException, ConnectionError):
            yield from stream
    finally:
        stream.leave()


def test_the_host_that_serves_requests_is_stopped(hosts: Hosts) -> None:
    """Its requests end in time, with an error or visibly broken; once it continues, the fleet is whole again."""
    stream = hosts["a"].stream("far", LONG).until_it_speaks()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(hosts["a"].chat, "far", LONG)
        eventually(lambda: [each["host"] for each in in_progress(hosts["a"])] == ["b", "b"])
        with stopped(hosts["b"]):
            began = time.monotonic()
            answer, is_whole = asked.result(), ended_cleanly(stream)
            took_s = time.monotonic() - began

    assert (answer.status, answer.headers["X-Error-Code"]) == (502, "host_unresponsive")
    assert not is_whole
    assert took_s < SILENT_S
    eventually(lambda: in_progress(hosts["a"]) == [])
    eventually(lambda: hosts["a"].chat("far").status == 200, within=CONNECT_S)
    eventually(lambda: all(names_at(hosts[name]) == {"near", "far"} for name in "ab"), within=CONNECT_S)
    assert hosts["b"].chat("near").status == 200


def test_the_process_that_forwarded_a_request_was_replaced(tmp_path: Path) -> None:
    """The old process notices that the other host stopped: the stream breaks visibly, and the process ends."""
    with fleet(tmp_path, Hotseat) as hosts:  # the installed program: a fork of the tests cannot start itself again
        stream = hosts["a"].stream("far", LONG).until_it_speaks()
        restarted = hosts["a"].cli("restart")
        assert restarted.returncode == 0, restarted.stderr
        assert next(iter(stream))
        with stopped(hosts["b"]):
            *_, last = rest_of(stream)

        assert "b, to which this request was forwarded, stopped answering" in last
        eventually(lambda: len(hosts["a"].processes(" serve ")) == 1)


def test_an_operator_ends_a_request_at_another_host(hosts: Hosts) -> None:
    """Through the host that the client asked; the other host stops working for it."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(hosts["a"].chat, "far", LONG)
        [forwarded] = eventually(lambda: [each for each in in_progress(hosts["a"]) if each["host"]])
        eventually(lambda: in_progress(hosts["b"]))
        ended = hosts["a"].call("DELETE", f"/hotseat/requests/{forwarded['ticket']}")
        answer = asked.result()

    assert (forwarded["model"], forwarded["host"]) == ("far", "b")
    assert ended.status == 200
    assert (answer.status, answer.headers["X-Error-Code"]) == (503, "request_cancelled")
    eventually(lambda: in_progress(hosts["b"]) == [])
