"""Profiles hotseat under load: the kernel's samples, added up by part of the code."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

from bench.relay.figures import BARE
from bench.relay.loads import CHAT, Requests, Streams, chat
from bench.relay.processes import PROXY_CORE, Failure
from bench.relay.proxies import HOTSEAT
from bench.relay.running_proxies import RunningProxy, started
from bench.relay.tools import program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 5
OFTEN = "1999"
PARTS = {
    "kernel": "the kernel: sockets and the wait for them",
    "python3": "Python: our code, interpreted",
    "loop.cpython": "uvloop and libuv",
    "libc": "the C library: copies and memory",
    "_core.cpython": "msgspec: the model's name in the JSON",
    "parser.cpython": "llhttp",
}
OTHER = "everything else"


def profile() -> None:
    """Print the shares under requests and under streams."""
    with started([HOTSEAT], needs_llama=False) as programs:
        running = next(running for running in programs.proxies if running.name != BARE)
        running.pin(PROXY_CORE)
        for name, load in LOADS.items():
            with running.turn():
                print_shares(name, sampled(running, load))


def requests(running: RunningProxy) -> None:
    Requests(CHAT, chat(1024), running.folder).send(running.port, 16, SECONDS + 2)


def streams(running: RunningProxy) -> None:
    Streams(500, 50, 1.0, SECONDS + 1.0).read(running.port, lambda: None, lambda: None)


LOADS: dict[str, Callable[[RunningProxy], None]] = {
    "requests of 1 KB over 16 connections": requests,
    "500 streams with 50 chunks a second": streams,
}


def sampled(running: RunningProxy, load: Callable[[RunningProxy], None]) -> Counter[str]:
    """Samples by part, from the middle seconds of the load."""
    assert running.service is not None
    file = running.folder / "perf.data"
    watch = ["record", "-q", "-F", OFTEN, "-p", str(running.service.pid), "-o", str(file)]
    with subprocess.Popen(
        [program("perf"), *watch, "--", "sleep", str(SECONDS)], stderr=subprocess.DEVNULL
    ) as recorder:
        load(running)
        recorder.wait(SECONDS + 10)
    return by_part(file)


def by_part(file: Path) -> Counter[str]:
    report = [program("perf"), "report", "-i", str(file), "--sort", "dso", "--stdio", "-F", "sample,dso"]
    done = subprocess.run(report, capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]
    if not rows:
        raise Failure(f"perf saw nothing: {done.stderr.strip()[-300:]}")
    shares: Counter[str] = Counter()
    for count, *library in rows:
        shares[part_of(" ".join(library))] += int(count)
    return shares


def part_of(library: str) -> str:
    return next((part for sign, part in PARTS.items() if sign in library), OTHER)


def print_shares(load: str, shares: Counter[str]) -> None:
    print(f"\n{load}:")
    for part, count in shares.most_common():
        print(f"  {100 * count / shares.total():5.1f} %  {part}")
