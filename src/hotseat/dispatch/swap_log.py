"""A log line for every swap, and a warning about thrashing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.commands import Evicted, ReportSwap

log = logging.getLogger(__name__)

BETWEEN_WARNINGS_S: Seconds = 60.0


class SwapLog:
    def __init__(self) -> None:
        self._warned_at: Instant = float("-inf")
        self._early = 0

    def write(self, swap: ReportSwap, now: Instant) -> None:
        log.info(
            "swapped model=%s client=%r waited_s=%.1f predicted_s=%s took_s=%.1f evicted=%r",
            swap.model,
            swap.client,
            swap.waited_s,
            "unknown" if swap.predicted_s is None else f"{swap.predicted_s:.1f}",
            swap.measured_s,
            "; ".join(map(swap_text, swap.evicted)),
        )
        self._early += sum(each.is_early for each in swap.evicted)
        if self._early and now - self._warned_at >= BETWEEN_WARNINGS_S:
            log.warning(
                "thrashing: models are evicted sooner than their load time evictions=%d model=%s",
                self._early,
                swap.model,
            )
            self._warned_at, self._early = now, 0


def swap_text(went: Evicted) -> str:
    return f"{went.model} after {went.age_s:.1f} s and {went.served} requests: {went.reason}"
