"""What a fleet of some size costs a host and NATS: traffic, processor time, memory, starts, and the return of NATS.

NATS servers, a real host with thousands of models, and processes that write and receive records beside it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.fleet.programs import FIRST, PARTS, SECRET
from tests.support.fleet_journey import nats_cluster
from tests.support.hotseat import Hotseat
from tests.support.processes import proc_file

from hotseat.fleet.membership import RENEW_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.support.nats import NatsServer

TICKS = os.sysconf("SC_CLK_TCK")
_SENT, _RECEIVED = re.compile(r"bytes_sent:(\d+)"), re.compile(r"bytes_received:(\d+)")


def processor_s(pid: int) -> float:
    """In user and kernel mode, in nanoseconds of the scheduler: the ticks of /proc/PID/stat are too coarse here."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def processor_since_start_s(pid: int) -> float:
    """Including threads that have ended, in ticks."""
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    (line,) = [line for line in proc_file(pid, "status").splitlines() if line.startswith(b"VmRSS:")]
    return int(line.split()[1]) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one host's connection to NATS since it was opened, from the view of the host."""

    messages_in: int
    messages_out: int
    bytes_in: int
    """On the wire: everything inside TCP, with NATS' own protocol."""
    bytes_out: int

    def since(self, before: Traffic) -> Traffic:
        return Traffic(
            self.messages_in - before.messages_in,
            self.messages_out - before.messages_out,
            self.bytes_in - before.bytes_in,
            self.bytes_out - before.bytes_out,
        )


NONE = Traffic(0, 0, 0, 0)


def traffic_of(host: str, servers: Sequence[NatsServer]) -> Traffic:
    """NONE if it is not connected."""
    for server in servers:
        for connection in server.monitoring("connz?limit=4096")["connections"]:
            if connection.get("name") == f"hotseat {host}":
                return _traffic(connection)
    return NONE


def _traffic(connection: dict[str, Any]) -> Traffic:
    """NATS counts messages, and of their bytes only the contents; the kernel counts all bytes."""
    output = subprocess.run(
        ["ss", "-tinH", f"sport = :{connection['port']}"], capture_output=True, text=True, check=True
    ).stdout
    sent, received = _SENT.search(output), _RECEIVED.search(output)
    return Traffic(
        connection["out_msgs"],
        connection["in_msgs"],
        int(received[1]) if received else 0,
        int(sent[1]) if sent else 0,
    )


def routed_bytes(servers: Sequence[NatsServer]) -> int:
    """Sent between the servers since they started, as NATS counts them."""
    return sum(route["out_bytes"] for server in servers for route in server.monitoring("routez")["routes"])


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
    """One of `bench.fleet.programs` as a process that is told lines and answers them."""

    def __init__(self, name: str, *words: str) -> None:
        argv = [sys.executable, "-m", "bench.fleet.programs", name, *words]
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

    def program(self, name: str, *words: str) -> Program:
        return self._stack.enter_context(Program(name, *words))

    def inject(self, number: int) -> None:
        """Let this many hosts exist beside the real ones."""
        if self._injected is None:
            self._injected = self.program("inject", *self.urls)
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


US = 1e6


@dataclass(frozen=True, slots=True)
class Count:
    """Of a receiver: messages so far, and its processor time so far."""

    messages: int
    processor_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    host_s: float
    nats_s: float
    traffic: Traffic
    routed: int
    parts: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class Window:
    """Two samples, some time apart."""

    hosts: int
    before: Sample
    after: Sample
    resident_mb: float

    @property
    def seconds(self) -> float:
        return self.after.at - self.before.at

    @property
    def traffic(self) -> Traffic:
        return self.after.traffic.since(self.before.traffic)

    @property
    def host_share(self) -> float:
        """Of one processor."""
        return (self.after.host_s - self.before.host_s) / self.seconds

    @property
    def nats_share(self) -> float:
        """Of one processor, all servers together."""
        return (self.after.nats_s - self.before.nats_s) / self.seconds

    @property
    def routed_per_s(self) -> float:
        return (self.after.routed - self.before.routed) / self.seconds

    def part_share(self, part: str) -> float:
        """Of one processor, by the receiver that does this part."""
        return (self.after.parts[part].processor_s - self.before.parts[part].processor_s) / self.seconds

    @property
    def records_per_s(self) -> float:
        """As a receiver counted them."""
        return (self.after.parts[PARTS[0]].messages - self.before.parts[PARTS[0]].messages) / self.seconds


class Observer:
    def __init__(self, rig: Rig, host: Hotseat) -> None:
        self._rig, self._host = rig, host
        self._receivers: dict[str, Program] = {part: rig.program("receive", part, *rig.urls) for part in PARTS}
        until(lambda: all(self._count(receiver).messages for receiver in self._receivers.values()))

    def window(self, hosts: int, seconds: float) -> Window:
        """Once the host knows that many: what happens in so many seconds."""
        self._rig.inject(hosts - 1)
        until_known(self._host, hosts)
        before = self._sample()
        time.sleep(seconds)
        return Window(hosts, before, self._sample(), resident_mb(self._host.process.pid))

    def _sample(self) -> Sample:
        parts = {part: self._count(receiver) for part, receiver in self._receivers.items()}
        nats, pid = self._rig.nats, self._host.process.pid
        nats_s = sum(processor_s(server.pid) for server in nats)
        return Sample(time.monotonic(), processor_s(pid), nats_s, traffic_of(FIRST, nats), routed_bytes(nats), parts)

    def _count(self, receiver: Program) -> Count:
        messages, processor = receiver.ask().split()
        return Count(int(messages), float(processor))


def steady(observer: Observer, sizes: Sequence[int], rounds: int, seconds: float) -> list[Window]:
    """Alone and at each size in turn, several times."""
    return [observer.window(size, seconds) for _ in range(rounds) for size in (1, *sizes)]


@dataclass(frozen=True, slots=True)
class FanOut:
    """What NATS does for many listeners."""

    listeners: int
    messages_per_s: float
    nats_share: float
    """Of one processor, beyond that without the listeners."""

    @property
    def us_per_message(self) -> float:
        return self.nats_share / self.messages_per_s * US


def fan_out(rig: Rig, observer: Observer, hosts: int, listeners: int, seconds: float) -> FanOut:
    """The servers without and with many more listeners, one window after the other."""
    without = observer.window(hosts, seconds)
    each = listeners // len(rig.nats)
    with ExitStack() as stack:
        for server in rig.nats:
            stack.enter_context(Program("listen", str(each), f"127.0.0.1:{server.port}"))
        until(lambda: all(server.monitoring("varz")["connections"] >= each for server in rig.nats))
        within = observer.window(hosts, seconds)
    sent = each * len(rig.nats) * within.records_per_s
    return FanOut(each * len(rig.nats), sent, within.nats_share - without.nats_share)


ALONE = 0
"""Hosts of no fleet."""


@dataclass(frozen=True, slots=True)
class Start:
    models: int
    hosts: int
    """Of the fleet, with this one; ALONE: it joins none."""
    ready_s: float
    """Until it answers."""
    known_s: float
    """Until it knows all hosts."""
    processor_s: float
    """Of the host, until it answers."""


def starts(rig: Rig, first: Hotseat, models: int, sizes: Sequence[int], rounds: int) -> list[Start]:
    """`first` is a host of the fleet."""
    return [start(rig, first, models, size) for _ in range(rounds) for size in (ALONE, *sizes)]


def start(rig: Rig, first: Hotseat, models: int, hosts: int) -> Start:
    if hosts:
        rig.inject(hosts - 2)
        until_known(first, hosts - 1)
    began = time.monotonic()
    with rig.host("joins", in_fleet=bool(hosts)) as host:
        ready_s, processor_s = time.monotonic() - began, processor_since_start_s(host.process.pid)
        if hosts:
            until_known(host, hosts)
        return Start(models, hosts, ready_s, time.monotonic() - began, processor_s)


@dataclass(frozen=True, slots=True)
class Return:
    hosts: int
    knows_s: float
    """From the moment when NATS is healthy until the host has heard of every other host again."""
    received: Traffic
    """By the host, until then."""
    busiest_bytes: int
    """Received in the busiest second."""


class Watch:
    """Samples the traffic of a host until it has heard of all others."""

    def __init__(self, rig: Rig, host: Hotseat, hosts: int) -> None:
        self._rig, self._host, self._hosts = rig, host, hosts
        self._began = time.monotonic()
        self._samples: list[tuple[float, Traffic]] = []

    def is_over(self) -> bool:
        self._samples.append((time.monotonic() - self._began, traffic_of(FIRST, self._rig.nats)))
        asked_at = time.monotonic()
        seen = known_to(self._host)
        return len(seen) == self._hosts and max(seen) < asked_at - self._began

    def result(self) -> Return:
        at, received = self._samples[-1]
        return Return(self._hosts, at, received, busiest(self._samples))


def busiest(samples: Sequence[tuple[float, Traffic]]) -> int:
    """Bytes received in a second, or in slightly more because of the pauses between samples."""
    most = 0
    for at, traffic in samples:
        earlier = [before for then, before in samples if then <= at - 1.0]
        most = max(most, traffic.bytes_in - (earlier[-1] if earlier else NONE).bytes_in)
    return most


def outage(rig: Rig, host: Hotseat, hosts: int) -> Return:
    rig.inject(hosts - 1)
    until_known(host, hosts)
    for server in rig.nats:
        server.kill()
    until(lambda: not known_to(host))
    for server in rig.nats:
        server.start()
    for server in rig.nats:
        asyncio.run(server.until_healthy())
    watch = Watch(rig, host, hosts)
    until(watch.is_over)
    return watch.result()


@dataclass(frozen=True, slots=True)
class Outcome:
    servers: int
    windows: Sequence[Window]
    fan_out: FanOut
    starts: Sequence[Start]
    returns: Sequence[Return]

    def sizes(self) -> list[int]:
        return sorted({window.hosts for window in self.windows})

    def at(self, hosts: int, figure: Callable[[Window], float]) -> float:
        """The median of the windows of one size."""
        return median(figure(window) for window in self.windows if window.hosts == hosts)

    def per_record_us(self, hosts: int, share: Callable[[Window], float]) -> list[float]:
        """In each round: what a record costs beyond what the same process does in a fleet without other hosts."""
        alone, together = ([share(each) for each in self.windows if each.hosts == size] for size in (1, hosts))
        return [(many - none) / (hosts - 1) * RENEW_S * US for none, many in zip(alone, together, strict=True)]


def measured(folder: Path, options: argparse.Namespace) -> Outcome:
    """Starts are also measured with half of the models."""
    sizes, models, rounds, seconds = options.sizes, options.models, options.rounds, options.seconds
    with rig(folder / "half", options.servers, models // 2) as half, half.host() as first:
        until_known(first, 1)
        begun = starts(half, first, models // 2, sizes[-1:], rounds)
    with rig(folder / "all", options.servers, models) as whole, whole.host() as first:
        until_known(first, 1)
        observer = Observer(whole, first)
        windows = steady(observer, sizes, rounds, seconds)
        sent = fan_out(whole, observer, sizes[len(sizes) // 2], options.listeners, seconds)
    with rig(folder / "again", options.servers, models) as whole, whole.host() as first:
        until_known(first, 1)
        begun += starts(whole, first, models, sizes, rounds)
        outages = [outage(whole, first, size) for size in sizes]
    return Outcome(options.servers, windows, sent, begun, outages)
