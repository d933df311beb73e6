"""Our share of a swap: the same two real models swapped by a bare harness and by hotseat, in alternating pairs.

Bare: SIGTERM to exit, exec to /health 200 polled tightly, and a first answer of one token. hotseat: one request
that causes the swap, from sending it to its complete answer. Both sides take turns in one run, because the machine's
mood changes by the minute. Needs `just llama`; loopback only; `just bench-swap`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Self

from tests.support.client import send
from tests.support.hotseat import Hotseat, free_port
from tests.support.llama import SERVER, command, llama

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")

NAMES = ("alpha", "beta")
BOUND_RATIO, BOUND_S = 1.15, 0.030
PATIENCE_S = 20.0


class Bare:
    """One llama-server at a time, driven directly and impatiently."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop()

    def swap_to(self, name: str) -> None:
        self._stop()
        port = free_port()
        argv = shlex.split(command(name, port))
        self._server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while not is_healthy(port):
            if time.monotonic() > until:
                raise SystemExit(f"llama-server was not ready within {PATIENCE_S} s: {shlex.join(argv)}")
            time.sleep(0.001)
        first_answer(port, name)

    def _stop(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.wait(timeout=PATIENCE_S)
            self._server = None


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        return send(connection, "GET", "/health", None, {}).status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def first_answer(port: int, name: str) -> None:
    """Ask for one token; return when the answer is complete."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        response = send(connection, "POST", "/completion", {"model": name, "prompt": "hi", "n_predict": 1}, {})
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise SystemExit(f"no answer from {name}: {response.status} {body[:300]!r}")


def measure(pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of each swap, bare and through hotseat."""
    bare_s, hotseat_s = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bare = stack.enter_context(Bare())
        house = stack.enter_context(Hotseat({"models": {name: llama(name) for name in NAMES}}, folder))
        for turn in range(-1, pairs):  # the first swap of each side is a start, not a swap
            name = NAMES[turn % 2]
            bare_swap, hotseat_swap = timed(bare.swap_to, name), timed(first_answer, house.port, name)
            if turn >= 0:
                bare_s.append(bare_swap)
                hotseat_s.append(hotseat_swap)
    return bare_s, hotseat_s


def timed(action: Callable[P, None], *args: P.args, **named: P.kwargs) -> float:
    begun = time.perf_counter()
    action(*args, **named)
    return time.perf_counter() - begun


def summary(seconds: list[float]) -> dict[str, float]:
    deciles = statistics.quantiles(seconds, n=10)
    return {"median_s": statistics.median(seconds), "p10_s": deciles[0], "p90_s": deciles[8]}


def print_table(bare: dict[str, float], hotseat: dict[str, float], pairs: int) -> None:
    version = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True)
    print((version.stdout + version.stderr).splitlines()[0].replace("version:", "llama-server"))
    print(f"{pairs} alternating pairs, milliseconds\n")
    print(f"{'swap':<10}{'median':>9}{'p10':>9}{'p90':>9}")
    for label, row in (("bare", bare), ("hotseat", hotseat)):
        print(f"{label:<10}" + "".join(f"{row[key] * 1000:>9.1f}" for key in ("median_s", "p10_s", "p90_s")))
    difference = hotseat["median_s"] - bare["median_s"]
    print(f"\nratio {hotseat['median_s'] / bare['median_s']:.2f}, difference {difference * 1000:+.1f} ms")


def is_within_bound(bare: dict[str, float], hotseat: dict[str, float]) -> bool:
    bound = bare["median_s"] * BOUND_RATIO + BOUND_S
    holds = hotseat["median_s"] <= bound
    word = "within" if holds else "ABOVE"
    print(f"{word} the bound of bare x {BOUND_RATIO} + {BOUND_S * 1000:.0f} ms = {bound * 1000:.1f} ms")
    return holds


def main() -> int:
    options = parse_options()
    bare_s, hotseat_s = measure(options.pairs)
    bare, hotseat = summary(bare_s), summary(hotseat_s)
    print_table(bare, hotseat, options.pairs)
    if options.json:
        rows = {"bare": {**bare, "all_s": bare_s}, "hotseat": {**hotseat, "all_s": hotseat_s}}
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    holds = is_within_bound(bare, hotseat)
    return 0 if holds or not options.check else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-swap", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=30, help="swaps of each kind (%(default)s)")
    parser.add_argument("--check", action="store_true", help="exit 1 when hotseat's median is above the bound")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
