"""The cost of forwarding a request to another host: the CPU time of both hosts, compared with one that serves its own.

Two hosts and a C program as model server; the same load in turn at the host that has the model and at the other one.
"""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.relay.loads import Requests, chat
from bench.relay.upstreams import bench_command
from tests.support.fleet_journey import Hosts, nats_cluster
from tests.support.ports import free_port
from tests.support.processes import proc_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.hotseat import Hotseat

CLIENTS = 16
SECONDS = 2
CHAT = "/v1/chat/completions"
US = 1e6 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Forwarded:
    """CPU-µs per request in one round."""

    local: float
    passing: float
    """At the host that forwards it."""
    serving: float
    """At the host that serves it."""

    @property
    def times_local(self) -> float:
        return (self.passing + self.serving) / self.local


def forwarded(folder: Path, rounds: int) -> list[Forwarded]:
    with ExitStack() as stack:
        nats = stack.enter_context(nats_cluster(folder / "nats", 1))
        hosts = Hosts(folder, nats, stack)
        port = free_port()
        hosts.start("near", {"bench": {"cmd": shlex.join(bench_command(port)), "proxy": f"http://127.0.0.1:{port}"}})
        hosts.start("far", {"other": {"cmd": "never-run ${PORT}"}})
        hosts.until_connected()
        load = Requests(CHAT, chat(1024), folder)
        for host in (hosts["near"], hosts["far"]):  # fills the head caches and loads the model
            load.send(host.port, CLIENTS, 1)
        return [one_round(load, hosts["near"], hosts["far"]) for _ in range(rounds)]


def one_round(load: Requests, near: Hotseat, far: Hotseat) -> Forwarded:
    (local,) = cost(load, near, near)
    passing, serving = cost(load, far, far, near)
    return Forwarded(local, passing, serving)


def cost(load: Requests, asked: Hotseat, *weighed: Hotseat) -> list[float]:
    """CPU-µs per request of each host, while `asked` gets the load."""
    before = [ticks(host) for host in weighed]
    answered = load.send(asked.port, CLIENTS, SECONDS)
    return [(ticks(host) - began) * US / answered.count for host, began in zip(weighed, before, strict=True)]


def ticks(host: Hotseat) -> int:
    """Of the process itself, without its guard and its model servers."""
    fields = proc_file(host.process.pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])
