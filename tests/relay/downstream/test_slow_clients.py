"""Hundreds of deliberately slow clients: they are disconnected, and others are served."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.support import bulk_server
from tests.support.hotseat import Hotseat
from tests.support.processes import peak_memory, reset_peak_memory
from tests.support.slow_clients import CONNECTIONS, NOBODY_LEFT, PATIENCE_S, SlowClients

from hotseat.settings import KiB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVER = {"cmd": f"{sys.executable} -I -S {bulk_server.__file__} ${{PORT}}"}
CONFIG = {
    "limits": {"idleTimeout": "2s"},
    "models": {"qwen": SERVER, "gemma": SERVER},
    "groups": {"both": {"swap": False, "members": ["qwen", "gemma"]}},
}
MOST_MEMORY = CONNECTIONS * 512 * KiB
"""One read of what its server said lies ready for each of them, which is 256 KiB."""


@dataclass(slots=True)
class Observer:
    """An ordinary client, who asks one model again and again while those of another are slow."""

    rig: Hotseat
    slowest_s: float = 0.0
    most_leases: int = 0

    def watch(self, clients: SlowClients, until: Callable[[], bool] = lambda: False) -> None:
        while clients.go_on and not until():
            began = time.monotonic()
            status = self.rig.call("GET", "/upstream/gemma/slots").status
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.most_leases = max(self.most_leases, self.leases())

            assert status == 200

    def leases(self) -> int:
        """How many requests hold the slow clients' model."""
        models = self.rig.call("GET", "/hotseat/models").json()["models"]
        return next(int(model["in_flight"]) for model in models if model["model"] == "qwen")

    def ended(self) -> int:
        """How many requests of theirs have ended."""
        finished = self.rig.call("GET", "/hotseat/requests").json()["finished"]
        return sum("qwen/large" in request["path"] for request in finished)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    with Hotseat(CONFIG, tmp_path_factory.mktemp("hotseat")) as rig:
        for model in ("qwen", "gemma"):
            rig.load(model)
        yield rig


@pytest.fixture
def observer(rig: Hotseat) -> Iterator[Observer]:
    """Whatever the clients do, others are served and memory is bounded."""
    reset_peak_memory(rig.process.pid)
    before = peak_memory(rig.process.pid)
    observer = Observer(rig)
    yield observer

    assert 0 < observer.slowest_s < PATIENCE_S
    assert peak_memory(rig.process.pid) - before < MOST_MEMORY


@pytest.mark.parametrize(
    "mode",
    [("-H", "-i", "1"), ("-B", "-i", "4")],
    ids=["heads that never end", "bodies that stop"],
)
def test_slow_writers_are_sent_away(observer: Observer, tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Clients that send heads or bodies slowly are all closed, hold no lease, and do not block others."""
    with SlowClients(f"{observer.rig.url}/upstream/qwen/slots", tmp_path, *mode) as clients:
        observer.watch(clients)

    assert max(clients.report.connected) > CONNECTIONS / 2
    assert all(clients.report.was_available)
    assert NOBODY_LEFT in clients.report.verdict
    assert observer.most_leases <= 1  # slowhttptest's own question whether the service is available


def test_a_thousand_ranges_are_a_head_like_any_other(observer: Observer, tmp_path: Path) -> None:
    """Requests with many ranges do not block other clients."""
    with SlowClients(f"{observer.rig.url}/upstream/qwen/slots", tmp_path, "-R") as clients:
        observer.watch(clients)

    assert all(clients.report.was_available)
    assert NOBODY_LEFT in clients.report.verdict


def test_slow_readers_are_sent_away(observer: Observer, tmp_path: Path) -> None:
    """Clients that read nothing lose their leases although they stay connected."""
    with SlowClients(f"{observer.rig.url}/upstream/qwen/large", tmp_path, "-X", "-n", "20", "-y", "64") as clients:
        observer.watch(clients, until=lambda: observer.ended() > CONNECTIONS / 2 and observer.leases() == 0)
        were_there = clients.go_on

    assert were_there
    assert all(clients.report.was_available)
