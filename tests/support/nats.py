"""Real NATS servers, one or a cluster of three, each with its own JetStream folder."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.ports import THIS_MACHINE, Machine, free_port
from tests.support.waiting import PATIENCE_S, come_true_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

PROGRAM = Path(sys.executable).with_name("nats-server")
CONFIG = """\
server_name: {name}
listen: {address}:{port}
http: {address}:{monitor}
jetstream {{ store_dir: "{folder}" {storage} }}
{cluster}
{more}
"""


class NatsServer:
    def __init__(
        self, folder: Path, name: str, more: str = "", storage: str = "", machine: Machine = THIS_MACHINE
    ) -> None:
        self.name, self.machine = name, machine
        self.port, self.route, self._monitor = free_port(), free_port(), free_port()
        self._folder = folder / name
        self._more = more
        self._storage = storage
        self._process: subprocess.Popen[bytes] | None = None
        self.cluster = ""

    @property
    def url(self) -> str:
        return f"nats://{self.machine.address}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        config = self._write_config()
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*self.machine.enter, PROGRAM, "-c", config], stdout=log, stderr=log)

    def _write_config(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "nats.conf"
        config.write_text(
            CONFIG.format(
                name=self.name,
                address=self.machine.address,
                port=self.port,
                monitor=self._monitor,
                folder=self._folder / "jetstream",
                storage=self._storage,
                cluster=self.cluster,
                more=self._more,
            )
        )
        return config

    def reconfigure(self, more: str) -> None:
        """Reload with another configuration."""
        assert self._process is not None
        self._more = more
        self._write_config()
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """With SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_state(self) -> None:
        """As if its disk was lost; only while it does not run."""
        assert self._process is None
        shutil.rmtree(self._folder / "jetstream")

    async def until_healthy(self) -> None:
        """Return when it answers and its JetStream has a leader."""
        await come_true_async(lambda: asyncio.to_thread(self._is_healthy), PATIENCE_S)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return bool(self.monitoring("healthz")["status"] == "ok")
        except urllib.error.HTTPError as answer:
            answer.close()
            return False
        except OSError:
            return False

    def monitoring(self, page: str) -> Any:
        """A page of its monitoring port."""
        at = f"{self.machine.address}:{self._monitor}"
        with urllib.request.urlopen(f"http://{at}/{page}", timeout=PATIENCE_S) as answer:
            return json.load(answer)


@asynccontextmanager
async def nats_servers(
    folder: Path,
    count: int = 1,
    *,
    more: str = "",
    storage: str = "",
    advertise: bool = True,
    machines: Mapping[str, Machine] | None = None,
) -> AsyncIterator[list[NatsServer]]:
    """`more` is added to the configuration of each, `storage` to that of its JetStream.

    Unless they `advertise`, clients use only the addresses they were given.
    """
    names = [f"nats{n}" for n in range(count)]
    servers = [NatsServer(folder, name, more, storage, (machines or {}).get(name, THIS_MACHINE)) for name in names]
    if count > 1:
        routes = ", ".join(f"nats://{server.machine.address}:{server.route}" for server in servers)
        for server in servers:
            listen = f"listen: {server.machine.address}:{server.route}, no_advertise: {str(not advertise).lower()}"
            server.cluster = f"cluster {{ name: test, {listen}, routes: [{routes}] }}"
    try:
        for server in servers:
            server.start()
        for server in servers:
            await server.until_healthy()
        yield servers
    finally:
        for server in servers:
            server.kill()
