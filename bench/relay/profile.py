"""Profiles hotseat under load: the kernel's samples, added up by part of the code."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

from bench.relay.entrants import CHAT, Entrant, started
from bench.relay.figures import BARE
from bench.relay.loads import Requests, Streams, chat
from bench.relay.processes import PROXY_CORE, Failure
from bench.relay.proxies.hotseat import HOTSEAT
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
    with started([HOTSEAT], needs_llama=False) as field:
        entrant = next(entrant for entrant in field.entrants if entrant.name != BARE)
        entrant.pin(PROXY_CORE)
        for name, load in LOADS.items():
            with entrant.turn():
                print_shares(name, sampled(entrant, load))


def requests(entrant: Entrant) -> None:
    Requests(CHAT, chat(1024), entrant.folder).send(entrant.port, 16, SECONDS + 2)


def streams(entrant: Entrant) -> None:
    Streams(500, 50, 1.0, SECONDS + 1.0).read(entrant.port, lambda: None, lambda: None)


LOADS: dict[str, Callable[[Entrant], None]] = {
    "requests of 1 KB over 16 connections": requests,
    "500 streams with 50 chunks a second": streams,
}


def sampled(entrant: Entrant, load: Callable[[Entrant], None]) -> Counter[str]:
    """Samples by part, from the middle seconds of the load."""
    assert entrant.service is not None
    file = entrant.folder / "perf.data"
    watch = ["record", "-q", "-F", OFTEN, "-p", str(entrant.service.pid), "-o", str(file)]
    with subprocess.Popen(
        [program("perf"), *watch, "--", "sleep", str(SECONDS)], stderr=subprocess.DEVNULL
    ) as recorder:
        load(entrant)
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
