"""hotseat is killed: its model servers end with it, or wait for the next one."""

from __future__ import annotations

import http.client
import os
import signal
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.client import PATIENCE_S, send
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.processes import environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GRACE: dict[str, Any] = {"crashGrace": "10m"}
"""Longer than a busy machine needs to start the next hotseat."""
SHOWN = ("/hotseat/config", "/hotseat/models", "/hotseat/models/alpha", "/hotseat/logs/alpha", "/metrics")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Hotseat]]:
    """Another one with the same state directory, and with the same port if it is given."""
    with ExitStack() as stack:

        def start(port: int | None = None, **settings: object) -> Hotseat:
            config = {**settings, "models": {"alpha": llama("alpha"), "beta": llama("beta")}}
            hotseat = Hotseat(config, tmp_path, port=port)
            stack.callback(lambda: print(hotseat.log()))
            return stack.enter_context(hotseat)

        yield start


def kill(hotseat: Hotseat) -> None:
    hotseat.process.send_signal(signal.SIGKILL)
    hotseat.process.wait()


def test_the_next_hotseat_adopts_the_servers(start: Callable[..., Hotseat]) -> None:
    """The next answer comes from the same process, and `ps` says who started it."""
    first = start(**GRACE)
    server = first.load("alpha")
    kill(first)
    second = start(first.port, **GRACE)

    assert second.chat("alpha").status == 200
    assert second.health()["alpha"]["pid"] == server
    assert "adopted" in second.cli("ps").stdout
    assert second.terminate() == 0
    assert second.processes() == []


def test_a_crash_after_a_restart(start: Callable[..., Hotseat]) -> None:
    """The first process ends with the one that was killed, and not with the servers: the next hotseat is in time."""
    first = start(**GRACE)
    server = first.load("alpha")
    replaced = first.cli("restart").stdout
    os.kill(int(replaced.split()[1]), signal.SIGKILL)

    assert first.process.wait(PATIENCE_S) == 128 + signal.SIGKILL
    second = start(first.port, **GRACE)
    assert second.health()["alpha"]["pid"] == server


def asked_directly(port: int, path: str) -> int:
    """The status for another user of this machine."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        return send(connection, "GET", path, None, {}).status


def test_a_server_demands_a_key(start: Callable[..., Hotseat]) -> None:
    """With `apiKeys` it answers hotseat only: through a restart, and after a crash. The key is shown nowhere."""
    admin = {"Authorization": "Bearer sk-admin-1"}
    first = start(**GRACE, apiKeys=["sk-admin-1"])
    first.call("GET", "/upstream/alpha/load", **admin)
    server = first.health()["alpha"]["pid"]
    key = environment(server).partition(b"LLAMA_API_KEY=")[2].partition(b"\0")[0].decode()
    port = first.call("GET", "/hotseat/models/alpha", **admin).json()["port"]
    others = [asked_directly(port, "/slots"), asked_directly(port, "/health")]
    answers = [
        first.chat("alpha", Authorization=admin["Authorization"]),
        first.call("GET", "/slots?model=alpha", **admin),
    ]
    restarted = first.cli("restart", HOTSEAT_API_KEY="sk-admin-1")
    answers.append(first.chat("alpha", Authorization=admin["Authorization"]))
    os.kill(first.call("GET", "/hotseat/restart", **admin).json()["pid"], signal.SIGKILL)
    first.process.wait()
    second = start(first.port, **GRACE, apiKeys=["sk-admin-1"])
    answers.append(second.chat("alpha", Authorization=admin["Authorization"]))
    shown = [second.call("GET", path, **admin).body.decode() for path in SHOWN]

    assert others == [401, 200]
    assert restarted.returncode == 0, restarted.stderr
    assert [answer.status for answer in answers] == [200] * 4
    assert second.health()["alpha"]["pid"] == server
    assert key not in "".join([*shown, first.log(), second.log()])


def test_a_yield_ends_with_the_process(start: Callable[..., Hotseat]) -> None:
    """Nobody could hand it over, so the next hotseat loads models, and its end there is no error."""
    first = start(**GRACE)
    assert first.call("POST", "/hotseat/yield").status == 200
    kill(first)
    second = start(first.port, **GRACE)

    assert second.chat("alpha").status == 200
    assert second.call("DELETE", "/hotseat/yield").json()["message"] == "models may load again"
    assert second.chat("beta").status == 200


def test_without_a_grace_nothing_survives(start: Callable[..., Hotseat]) -> None:
    """As always: no descendant outlives hotseat."""
    first = start()
    first.load("alpha")
    kill(first)

    eventually(lambda: first.processes() == [])


def test_nobody_comes_in_time(start: Callable[..., Hotseat]) -> None:
    """The servers end when the grace is over."""
    first = start(crashGrace="1s")
    first.load("alpha")
    kill(first)

    eventually(lambda: first.processes() == [])


def test_the_model_was_changed_meanwhile(start: Callable[..., Hotseat]) -> None:
    """A server of another command is not adopted, but ended."""
    first = start(**GRACE)
    server = first.load("alpha")
    kill(first)
    first.write({**GRACE, "models": {"alpha": llama("alpha", "-c 4096")}})
    second = Hotseat(first.config, first.config.parent, port=first.port)
    with second:
        assert second.load("alpha") != server
        eventually(lambda: len(second.upstreams()) == 1)


def test_the_server_died_meanwhile(start: Callable[..., Hotseat]) -> None:
    """The next hotseat starts it again."""
    first = start(**GRACE)
    server = first.load("alpha")
    kill(first)
    for pid in first.upstreams():
        os.kill(pid, signal.SIGKILL)
    second = start(first.port, **GRACE)

    assert second.load("alpha") != server


def test_a_stop_by_an_operator_is_no_crash(start: Callable[..., Hotseat]) -> None:
    """After SIGTERM nothing is kept, whatever the grace."""
    first = start(**GRACE)
    first.load("alpha")

    assert first.terminate() == 0
    assert first.processes() == []


def test_systemd_restarts_the_service(start: Callable[..., Hotseat]) -> None:
    """A stream finishes after SIGUSR1, and the next hotseat adopts the server."""
    first = start(**GRACE)
    server = first.load("alpha")
    stream = first.stream("alpha", 64).until_it_speaks()
    first.process.send_signal(signal.SIGUSR1)
    stream.read()
    code = first.process.wait(PATIENCE_S)
    second = start(first.port, **GRACE)

    assert code == 0
    assert second.chat("alpha").status == 200
    assert second.health()["alpha"]["pid"] == server


def test_systemd_restarts_the_service_without_a_grace(start: Callable[..., Hotseat]) -> None:
    """SIGUSR1 stops everything then, as SIGTERM does."""
    first = start()
    first.load("alpha")
    first.process.send_signal(signal.SIGUSR1)

    assert first.process.wait(PATIENCE_S) == 0
    assert first.processes() == []


def test_a_stop_overtakes_a_restart(start: Callable[..., Hotseat]) -> None:
    """SIGTERM while requests finish after SIGUSR1: nothing is kept."""
    first = start(**GRACE)
    first.load("alpha")
    stream = first.stream("alpha", 4000).until_it_speaks()
    first.process.send_signal(signal.SIGUSR1)
    eventually(lambda: "shutting down" in first.log())

    assert first.terminate() == 0
    assert first.processes() == []
    stream.leave()


def test_killed_while_it_stops(start: Callable[..., Hotseat]) -> None:
    """systemd does that when a stop takes too long: it stays a stop, and nothing is kept."""
    first = start(**GRACE)
    first.load("alpha")
    stream = first.stream("alpha", 4000).until_it_speaks()
    first.process.send_signal(signal.SIGTERM)
    eventually(lambda: "shutting down" in first.log())
    kill(first)

    eventually(lambda: first.processes() == [])
    stream.leave()
