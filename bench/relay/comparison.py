"""Compares the current source with an earlier revision.

Both run every cell in turn, and the ratio is of each round. Function calls per request and per chunk are counted too:
unlike time, they are the same on every machine.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.relay.figures import Figures, spread
from bench.relay.loads import CHAT, Requests, Streams, chat
from bench.relay.measure import CHUNKS_PER_S, STREAMS_SETTLE_S, run_rounds, tell
from bench.relay.processes import Failure, wait_for
from bench.relay.proxies import HOTSEAT, Backs, Launch, Proxy, at
from bench.relay.running_proxies import RunningProxy, started
from bench.relay.tools import HERE
from bench.report import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.relay.measure import Cell

CLIENTS, STREAMS, SECONDS = 16, 100, 2
COUNTS = "calls.json"


def call_rows(*proxies: Proxy) -> list[list[str]]:
    """Python and C calls of each."""
    found = [calls_of(proxy) for proxy in proxies]
    head = ["", *(proxy.name for proxy in proxies)]
    return [head, *([title, *(f"{calls[title]:.1f}" for calls in found)] for title in found[0])]


def calls_of(proxy: Proxy) -> dict[str, float]:
    with started([counted(proxy)], needs_llama=False) as programs:
        running = programs.proxies[-1]
        with running.turn():
            return {**per_request(running), **per_chunk(running)}


def counted(proxy: Proxy) -> Proxy:
    def launch(folder: Path, port: int, backs: Backs) -> Launch:
        program, *arguments = proxy.launch(folder, port, backs).argv
        python = program.replace("bin/hotseat", "bin/python")
        return Launch([python, str(HERE / "counting.py"), str(folder / COUNTS), *arguments])

    return replace(proxy, launch=launch)


def per_request(running: RunningProxy) -> dict[str, float]:
    begin(running)
    count = Requests(CHAT, chat(1024), running.folder).send(running.port, CLIENTS, SECONDS).count
    end(running)
    return shares(running, "request", count)


def per_chunk(running: RunningProxy) -> dict[str, float]:
    """While all streams are open: their beginnings and ends do not count."""
    load = Streams(STREAMS, CHUNKS_PER_S, STREAMS_SETTLE_S, SECONDS)
    count = load.read(running.port, lambda: begin(running), lambda: end(running)).count
    return shares(running, "chunk", count)


def begin(running: RunningProxy) -> None:
    send(running, signal.SIGRTMIN)


def end(running: RunningProxy) -> None:
    send(running, signal.SIGRTMIN + 1)


def send(running: RunningProxy, number: int) -> None:
    if running.service is None:
        raise Failure(f"{running.name} has no process")
    os.kill(running.service.pid, number)


def shares(running: RunningProxy, unit: str, count: int) -> dict[str, float]:
    file = running.folder / COUNTS
    wait_for(f"{running.name} wrote no counts", file.exists)
    counts = json.loads(file.read_text())
    file.unlink()
    return {f"{kind} calls per {unit}": number / count for kind, number in counts.items()}


MEASURES = {
    "cpu_us": "CPU-µs",
    "per_s": "answers or chunks/s",
    "share_of_bare": "share of bare",
    "mb_per_1000": "MB per 1,000",
}


def compare(revision: str, cells: Sequence[Cell], rounds: int) -> None:
    """Measure both and print a row for each cell and measure."""
    before, samples = at(revision), []
    for sample in run_rounds([HOTSEAT, before], cells, rounds):
        tell(sample)
        samples.append(sample)
    print(f"\n{plain(call_rows(before, HOTSEAT))}")
    print(f"\nhotseat, {rounds} rounds: median [lowest–highest]\n\n{plain(rows(Figures(samples), before.name))}")


def rows(figures: Figures, before: str) -> list[list[str]]:
    head = ["", "", before, "now", "now / before"]
    return [head, *(row for cell in figures.cells() for row in rows_of(figures, cell, before))]


def rows_of(figures: Figures, cell: str, before: str) -> list[list[str]]:
    found = []
    for measure, title in MEASURES.items():
        then, now = figures.get(before, cell, measure), figures.get(HOTSEAT.name, cell, measure)
        ratio = figures.ratio(HOTSEAT.name, before, cell, measure)
        if then and now and ratio:
            found.append([cell, title, spread(then), spread(now), spread(ratio)])
    return found
