"""A minute with 2,000 streams: every chunk arrives in order, nothing is cut, and hotseat's memory does not grow."""

from __future__ import annotations

import statistics
import threading
from typing import TYPE_CHECKING

from bench.relay.figures import BARE
from bench.relay.loads import Streams
from bench.relay.measure import must_be_quiet
from bench.relay.proxies.hotseat import HOTSEAT
from bench.relay.running_proxies import RunningProxy, started

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAMS, RATE, SECONDS = 2000, 20, 60.0
EDGE_S = 10
MOST_GROWTH_MB = 2.0
WEIGH_EVERY_S = 1.0


def soak() -> bool:
    """Whether it passed. Prints the results; raises at a broken stream."""
    with started([HOTSEAT], needs_llama=False) as programs:
        running = next(running for running in programs.proxies if running.name != BARE)
        with running.turn():
            scales = Scales(running)
            load = Streams(STREAMS, RATE, settle_s=2.0, measure_s=SECONDS)
            answered = load.read(running.port, scales.start, scales.stop)
            must_be_quiet(running)
        programs.must_live()
    print(f"{answered.count:,} chunks of {STREAMS:,} streams in {SECONDS:g} s, all in order")
    print(f"delay p50 {answered.p50_us / 1000:.1f} ms, p99 {answered.p99_us / 1000:.1f} ms")
    return is_fed(answered.starved) & is_flat(scales.weights_mb)


def is_fed(starved: int) -> bool:
    if starved:
        print(f"FAILS: {starved} streams got nothing")
    return not starved


def is_flat(weights_mb: Sequence[float]) -> bool:
    grown_mb = growth_mb(weights_mb)
    holds = grown_mb <= MOST_GROWTH_MB
    print(f"PSS {statistics.mean(weights_mb):.1f} MB, {grown_mb:+.2f} MB from the first to the last {EDGE_S} s", end="")
    print("" if holds else f"  FAILS: more than {MOST_GROWTH_MB:g} MB")
    return holds


def growth_mb(weights_mb: Sequence[float]) -> float:
    """From the beginning to the end, each a mean over some seconds."""
    return statistics.mean(weights_mb[-EDGE_S:]) - statistics.mean(weights_mb[:EDGE_S])


class Scales:
    """Measures a proxy's memory every second between start and stop."""

    def __init__(self, running: RunningProxy) -> None:
        self.weights_mb: list[float] = []
        self._proxy = running
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._weigh, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _weigh(self) -> None:
        while not self._is_over.wait(WEIGH_EVERY_S):
            self.weights_mb.append(self._proxy.pss_mb())
