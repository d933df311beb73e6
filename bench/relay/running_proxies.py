"""The proxies of a run with their upstreams: all started, warmed up, and paused until their turn."""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.relay.figures import BARE
from bench.relay.loads import CHAT, Requests, chat
from bench.relay.processes import Service, wait_for
from bench.relay.proxies import Backs, Proxy
from bench.relay.tools import bench_command, is_healthy, llama_command
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WARM_CLIENTS, WARM_S = 4, 1


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A running proxy; the bare upstream takes part too, and has no service of its own."""

    name: str
    port: int
    backs: Backs
    folder: Path
    service: Service | None = None
    proxy: Proxy | None = None

    @property
    def llama_port(self) -> int:
        return self.port if self.service else self.backs.llama or 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Inside the block it runs, and no other proxy does."""
        if self.service is None:
            yield
            return
        self.service.resume()
        try:
            yield
        finally:
            self.service.pause()

    def pin(self, cores: Sequence[int]) -> None:
        if self.service:
            self.service.pin(cores)

    def cpu_s(self) -> float:
        return self.service.cpu_s() if self.service else 0.0

    def pss_mb(self) -> float:
        return self.service.pss_mb() if self.service else 0.0


@dataclass(frozen=True, slots=True)
class Programs:
    proxies: list[RunningProxy]
    services: list[Service]

    def must_live(self) -> None:
        """Raise if any process has died, since measurements after that are invalid."""
        for service in self.services:
            service.must_live()


@contextmanager
def started(proxies: Sequence[Proxy], needs_llama: bool) -> Iterator[Programs]:
    """The upstreams and all proxies, warmed up and paused; all are stopped when the block is left."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-relay-")))
        shared = Backs(free_port(), free_port() if needs_llama else None)
        services = [stack.enter_context(service) for service in upstream_services(shared, folder)]
        programs = Programs([RunningProxy(BARE, shared.bench, shared, folder)], services)
        for proxy in proxies:
            programs.proxies.append(start(proxy, shared, folder, stack))
        programs.services.extend(running.service for running in programs.proxies if running.service)
        for running in programs.proxies:
            ready(running, programs)
        yield programs


def upstream_services(backs: Backs, folder: Path) -> Iterator[Service]:
    yield Service("upstream", bench_command(backs.bench), folder / "upstream.log")
    if backs.llama:
        yield Service("llama-server", llama_command(backs.llama), folder / "llama-server.log")


def start(proxy: Proxy, shared: Backs, parent: Path, stack: ExitStack) -> RunningProxy:
    folder = parent / proxy.name
    folder.mkdir()
    own = Backs(free_port(), free_port() if shared.llama else None)
    backs, port = (own if proxy.starts_upstreams else shared), free_port()
    launch = proxy.launch(folder, port, backs)
    service = stack.enter_context(Service(proxy.name, launch.argv, folder / "log", launch.environment))
    return RunningProxy(proxy.name, port, backs, folder, service, proxy)


def ready(running: RunningProxy, programs: Programs) -> None:
    """Return when it and its upstreams answer and it has served some requests; it is then paused."""

    def answers() -> bool:
        programs.must_live()
        return all(is_healthy(port) for port in (running.backs.bench, running.backs.llama) if port)

    def listens() -> bool:
        programs.must_live()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", running.port)) == 0

    wait_for(f"the upstreams of {running.name} did not answer", answers)
    wait_for(f"{running.name} did not listen", listens)
    Requests(CHAT, chat(1024), running.folder).send(running.port, WARM_CLIENTS, WARM_S)
    if running.service:
        running.service.pause()
