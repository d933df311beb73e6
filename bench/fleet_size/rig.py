"""NATS servers, a real host with thousands of models, and processes that write and receive records beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench.fleet_size.injected import FIRST, SECRET
from tests.support.fleet_journey import nats_cluster
from tests.support.hotseat import Hotseat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.nats import NatsServer

KNOWN_S = 120.0
"""How long to wait until a host knows all others."""
EVERY_S = 0.25
MODEL = """\
  model-{number:05}:
    cmd: llama-server --port ${{PORT}} -m {file} --alias model-{number:05} -c 8192
    memory: 5GiB
"""
FLEET = """\
fleet:
  name: {name}
  secret: {secret}
  nats: [{nats}]
"""


class Program:
    """A module of this package as a process that is told lines and answers them."""

    def __init__(self, module: str, *words: str) -> None:
        argv = [sys.executable, "-m", f"bench.fleet_size.{module}", *words]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ask(self) -> str:
        self.tell("")
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *problem: object) -> None:
        self._process.kill()
        self._process.communicate()


class Rig:
    def __init__(self, folder: Path, nats: list[NatsServer], models: int, stack: ExitStack) -> None:
        self.folder = folder
        self.nats = nats
        file = folder / "model.gguf"
        file.touch()  # a host lists missing files in its record
        self._models = "models:\n" + "".join(MODEL.format(number=n, file=file) for n in range(models))
        self._stack = stack
        self._injected: Program | None = None

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.nats]

    def host(self, name: str = FIRST, *, in_fleet: bool = True) -> Hotseat:
        """A new process of the installed program, not ready yet."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        config = folder / "config.yaml"
        fleet = FLEET.format(name=name, secret=SECRET, nats=", ".join(self.urls)) if in_fleet else ""
        config.write_text(f"devices: {{gpu0: {{memory: 24GiB}}}}\n{fleet}{self._models}")
        return Hotseat(config, folder)

    def program(self, module: str, *words: str) -> Program:
        return self._stack.enter_context(Program(module, *words))

    def inject(self, number: int) -> None:
        """Let this many hosts exist beside the real ones."""
        if self._injected is None:
            self._injected = self.program("injected", *self.urls)
        self._injected.tell(str(number))


def known_to(host: Hotseat) -> list[float]:
    """When each host was last heard of, in seconds; empty while this host is disconnected."""
    fleet = host.call("GET", "/hotseat/fleet").json()
    return [each["last_seen_s"] for each in fleet["hosts"]] if fleet["connection"] == "connected" else []


def until_known(host: Hotseat, number: int) -> None:
    """Return when the host knows exactly this many, itself included."""
    until(lambda: len(known_to(host)) == number)


def until(fact: Callable[[], bool]) -> None:
    """Asks rarely: a host that lists a thousand others is busy with that for some time."""
    deadline = time.monotonic() + KNOWN_S
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the fleet did not become as large as it should within {KNOWN_S:g} s")
        time.sleep(EVERY_S)


@contextmanager
def rig(folder: Path, servers: int, models: int) -> Iterator[Rig]:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        nats = stack.enter_context(nats_cluster(folder / "nats", servers))
        yield Rig(folder, nats, models, stack)
