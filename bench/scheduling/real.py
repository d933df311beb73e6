"""The same traces through the real proxy and real child processes, twenty times as fast.

Validates the simulator: traces do not contain the time to start and stop a process, so it is measured and given to the
simulator; then loads and mean latency of both must agree. The one request of f4 is asked at its own speed.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.scheduling.runs import TURNS, decider
from bench.scheduling.workloads import WAITING, busy_model, eight_agents, one_request, planners_and_coders, two_clients
from tests.support.hotseat import Hotseat

from hotseat.cli.client import Server
from hotseat.cli.problems import Problem
from hotseat.cli.record import Watched
from hotseat.simulation.results import figures
from hotseat.simulation.simulator import Replay, play, replay_of
from hotseat.simulation.trace import Closed, Model, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.simulation.results import Run
    from hotseat.simulation.trace import Client, Job

SPEED = 20.0
STUB = Path(__file__).with_name("stub_upstream.py")
PATIENCE_S = 120.0

TRACES: dict[str, Trace] = {
    "a": two_clients(1, each=20),
    "b2": eight_agents(1, each=10),
    "d2": planners_and_coders(1, rounds=6),
    "f1": busy_model(1, each=40),
}
"""Shortened, so that all of them take two minutes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    workload: str
    loads: int
    loads_simulated: int
    mean_s: float
    mean_simulated_s: float

    @property
    def loads_off(self) -> float:
        return abs(self.loads - self.loads_simulated) / self.loads_simulated

    @property
    def mean_off(self) -> float:
        return abs(self.mean_s - self.mean_simulated_s) / self.mean_simulated_s


def compare_all(say: Callable[[str], None]) -> Iterator[Comparison]:
    for name, trace in TRACES.items():
        say(f"real processes: {name}")
        yield compare(name, faster(trace))


def seconds_until_answered(say: Callable[[str], None]) -> float:
    """How long the one request of f4 takes beside three busy clients."""
    say("real processes: f4")
    latencies, _ = served(one_request(1, each=30))
    [waited] = latencies[WAITING]
    return waited


def compare(name: str, trace: Trace) -> Comparison:
    latencies, watched = served(trace)
    expected = figures(simulated(trace, watched))
    loads = sum(map(len, watched.recording.loads.values()))
    mean_s = fmean(seconds for theirs in latencies.values() for seconds in theirs)
    return Comparison(name, loads, expected.loads, mean_s, expected.mean_s)


def simulated(trace: Trace, watched: Watched) -> Run:
    """The simulator's run with the measured times to start and stop processes."""
    seen = watched.recording
    models = tuple(
        Model(m.name, measured(seen.loads, m.name, m.load), measured(seen.stops, m.name, m.stop), m.slots, m.size)
        for m in trace.models
    )
    as_measured = replace(trace, models=models)
    return play(as_measured, decider(TURNS, as_measured))


def measured(seconds: dict[str, list[float]], name: str, declared: float) -> float:
    return fmean(seconds[name]) if name in seconds else declared


# Through the proxy


def served(trace: Trace) -> tuple[dict[str, list[float]], Watched]:
    """The latency of every request by client, and the loads and stops that hotseat reported."""
    watched = Watched()
    with tempfile.TemporaryDirectory() as folder:
        with Hotseat(config_of(trace), Path(folder)) as rig:
            recorder = threading.Thread(target=watch, args=(rig.url, watched))
            recorder.start()
            while not watched.recording.models:
                time.sleep(0.01)
            latencies = asyncio.run(asked_of(rig.port, trace))
        recorder.join()
    return latencies, watched


def watch(url: str, watched: Watched) -> None:
    """Until hotseat ends."""
    with suppress(Problem):
        for line in Server(url).follow("/hotseat/traffic"):
            watched.note(json.loads(line))


def config_of(trace: Trace) -> dict[str, Any]:
    assert trace.memory is not None
    return {
        "clientHeader": "X-Client",
        "trustedProxies": ["127.0.0.1"],
        "logLevel": "warn",
        "devices": {device: {"memory": f"{gib:g}GiB"} for device, gib in trace.memory.devices.items()},
        "models": {model.name: server_of(model) for model in trace.models},
    }


def server_of(model: Model) -> dict[str, Any]:
    words = [sys.executable, "-I", "-S", str(STUB), "${PORT}", f"{model.load}", f"{model.stop}", f"{model.slots}"]
    command = " ".join(word if word == "${PORT}" else shlex.quote(word) for word in words)
    return {"cmd": command, "memory": f"{model.size}GiB", "concurrencyLimit": model.slots}


async def asked_of(port: int, trace: Trace) -> dict[str, list[float]]:
    """Every client's requests, as the simulator replays them, but in real time."""
    async with asyncio.TaskGroup() as clients:
        loops = {each.client: clients.create_task(ask_in_turn(port, replay_of(each))) for each in trace.clients}
    return {client: loop.result() for client, loop in loops.items()}


async def ask_in_turn(port: int, replay: Replay) -> list[float]:
    loop = asyncio.get_running_loop()
    begun, latencies = loop.time(), []
    coming = replay.begin()
    while coming:
        [(when, job)] = coming
        await asyncio.sleep(begun + when - loop.time())
        asked = loop.time()
        await ask(port, replay.client, job)
        latencies.append(loop.time() - asked)
        coming = list(replay.after(loop.time() - begun))
    return latencies


async def ask(port: int, client: str, job: Job) -> None:
    body = json.dumps({"model": job.model, "service_s": job.service}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Client: {client}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200"), answer


def faster(trace: Trace) -> Trace:
    """The same, twenty times as fast."""
    models = tuple(Model(m.name, m.load / SPEED, m.stop / SPEED, m.slots, m.size) for m in trace.models)
    return replace(trace, models=models, clients=tuple(map(faster_client, trace.clients)))


def faster_client(client: Client) -> Closed:
    assert isinstance(client, Closed)
    steps = (Step(step.think / SPEED, step.model, step.service / SPEED) for step in client.steps)
    return Closed(client.client, tuple(steps), client.start / SPEED)
