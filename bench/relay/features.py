"""What features cost: keys, budgets and traces beside none, and streams that are translated beside plain ones.

The same requests or streams go through hotseat with each of them, in turn. Usage is counted by all, since it is
always on.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml
from bench.relay.figures import BARE, Figure, Figures, Sample, spread
from bench.relay.loads import CHAT
from bench.relay.measure import Cell, Work, must_be_quiet, run_rounds, shuffled, streams, tell
from bench.relay.proxies import HOTSEAT, configuration, served
from bench.relay.pythons import hotseat, pip
from bench.relay.running_proxies import started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.relay.proxies import Backs, Launch, Proxy

REQUESTS = Cell(Work.UNARY, 16)
KEY = {"key": "sk-bench", "name": "bench"}
"""What the load sends to every proxy."""
OTHERS = [{"key": f"key-of-colleague-{number}", "name": f"colleague {number}"} for number in range(19)]
BUDGETS = {"requests": "100M/day", "tokens": "1000M/day"}


class Collector(BaseHTTPRequestHandler):
    """Takes traces and looks at none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def collector() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def with_team(name: str, more: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Proxy:
    """hotseat with more in its configuration and its environment."""

    def launch(folder: Path, port: int, backs: Backs) -> Launch:
        started = served(hotseat(), folder, port, backs)
        config = {**configuration(backs), **more}
        (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, width=10_000))
        return replace(started, environment=environment or {})

    return replace(HOTSEAT, name=name, launch=launch)


def compare_team(rounds: int) -> None:
    """Measure all and print the processor time per request of each."""
    with collector() as address:
        pip(hotseat(), "opentelemetry-proto")
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": address}
        team = [
            with_team("20 keys", {"apiKeys": [KEY, *OTHERS]}),
            with_team("20 keys, budgets", {"apiKeys": [{**KEY, **BUDGETS}, *OTHERS]}),
            with_team("traces", {}, traced),
            with_team("all", {"apiKeys": [{**KEY, **BUDGETS}, *OTHERS]}, traced),
        ]
        samples = []
        for sample in run_rounds([HOTSEAT, *team], [REQUESTS], rounds):
            tell(sample)
            samples.append(sample)
    show(Figures(samples), [HOTSEAT, *team], rounds)


def show(figures: Figures, proxies: list[Proxy], rounds: int) -> None:
    print(f"\nhotseat, {REQUESTS.clients} clients, {rounds} rounds, CPU-µs per request: median [lowest–highest]")
    for proxy in proxies:
        cost = figures.get(proxy.name, REQUESTS.key, "cpu_us")
        ratio = figures.ratio(proxy.name, HOTSEAT.name, REQUESTS.key, "cpu_us")
        if cost is not None and ratio is not None:
            print(f"{proxy.name:<20}{spread(cost):<22}ratio {spread(ratio)}")


STREAMS = Cell(Work.SSE, 100)
PLAIN, TRANSLATED = "plain", "ollama"
PATHS = {PLAIN: CHAT, TRANSLATED: "/api/chat"}
MOST = 2.5
"""CPU time of a translated chunk, compared with a plain one."""


def compare_translated(rounds: int) -> bool:
    """Whether a translated chunk costs little enough. Prints both; raises at a broken stream."""
    figures = Figures(measured(rounds))
    print(f"\nhotseat, {STREAMS.clients} streams, {rounds} rounds, CPU-µs per chunk: median [lowest–highest]")
    for kind in PATHS:
        print(f"{kind:<12}{spread(known(figures.get(kind, STREAMS.key, 'cpu_us')))}")
    ratio = known(figures.ratio(TRANSLATED, PLAIN, STREAMS.key, "cpu_us"))
    holds = ratio.median <= MOST
    print(f"{'ratio':<12}{spread(ratio)}{'' if holds else f'  FAILS: more than {MOST:g}'}")
    return holds


def measured(rounds: int) -> list[Sample]:
    samples = []
    with started([HOTSEAT], needs_llama=False) as programs:
        running = next(running for running in programs.proxies if running.name != BARE)
        with running.turn():
            for number in range(rounds):
                for kind, path in shuffled(list(PATHS.items())):
                    samples.append(Sample(kind, STREAMS.key, number, streams(running, STREAMS, path)))
                    tell(samples[-1])
                    must_be_quiet(running)
        programs.must_live()
    return samples


def known(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure
