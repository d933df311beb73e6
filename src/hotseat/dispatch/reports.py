"""What the log says of the scheduler: swaps, thrashing, servers that failed, and limits that cannot be met."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.errors import with_output
from hotseat.scheduling.events import CatalogChanged, UpstreamReady

if TYPE_CHECKING:
    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.commands import Evicted, ReportFailure, ReportSwap
    from hotseat.scheduling.scheduler import Scheduler

log = logging.getLogger(__name__)

BETWEEN_WARNINGS_S: Seconds = 60.0


class SwapLog:
    """A line for every swap, and a warning about thrashing."""

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


def log_failure(failure: ReportFailure) -> None:
    """A warning for every server that failed to start or exited by itself."""
    error = with_output(failure.error, failure.output)
    fields = (failure.model, failure.after_s, failure.failures, failure.retry_in_s, error)
    if failure.is_crash:
        log.warning("model server crashed model=%s ready_s=%.2f failures=%d retry_in_s=%.0f error=%r", *fields)
    else:
        log.warning("model server failed to start model=%s took_s=%.2f failures=%d retry_in_s=%.0f error=%r", *fields)


class UnmetLimits:
    """Logs the limits of the configuration that cannot be met, each once until it changes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._logged: list[str] = []

    def watch(self, entry: Entry) -> None:
        """A listener of the journal: a load changes what is known about limits that can be met."""
        if isinstance(entry.event, UpstreamReady | CatalogChanged):
            self.log_new()

    def log_new(self) -> None:
        warnings = self._scheduler.warnings()
        for warning in warnings:
            if warning not in self._logged:
                log.warning("configuration problem=%r", warning)
        self._logged = warnings
