"""GET /metrics: everything that is counted or measured, as Prometheus reads it.

Counters and the scheduler's view become families at each scrape. Counters of configured models start at zero: a counter
that appears with its first event has no rate for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from hotseat import __version__
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase
from hotseat.telemetry import metric_names
from hotseat.telemetry.metric_names import STATUS_CLASSES
from hotseat.telemetry.metrics import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from hotseat.scheduling.view import View
    from hotseat.telemetry.metric_names import Figure
    from hotseat.telemetry.metrics import AllCounters, LoadCounters, Metrics, RequestCounters, Spread


class MetricsText:
    def __init__(
        self,
        metrics: Metrics,
        view: Callable[[], View],
        lag: Callable[[], float],
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        page = Page(metrics.counters, view, lag, lost, lambda: metrics.reload_succeeded)
        self._collectors: list[Collector] = [page, ProcessCollector(registry=None)]

    def include(self, more: Collector) -> None:
        """Add another collector to the page."""
        self._collectors.append(more)

    async def render(self, *more: Collector) -> bytes:
        """With what is collected for this page only. A thread writes it: thousands of hosts or keys take a while."""
        found = _Collected()
        for collector in (*self._collectors, *more):
            found.metrics += collector.collect()
            await asyncio.sleep(0)
        return await asyncio.to_thread(generate_latest, cast("CollectorRegistry", found))


class Page(Collector):
    def __init__(
        self,
        counters: AllCounters,
        view: Callable[[], View],
        lag: Callable[[], float],
        lost: Callable[[], int],
        reload_succeeded: Callable[[], bool],
    ) -> None:
        self._counters = counters
        self._view = view
        self._lag = lag
        self._lost = lost
        self._reload_succeeded = reload_succeeded

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would otherwise collect once, before there is a view."""
        return ()

    def collect(self) -> Iterator[Metric]:
        view = self._view()
        for model in view.models:
            self._counters.begin(model.name)
        yield from of_requests(self._counters.requests)
        yield from of_tokens(self._counters.requests)
        yield of_refusals(self._counters.refusals)
        yield from of_loads(self._counters.loads)
        yield from of_view(view)
        lost = metric_names.ACTIVITY_LOST.counter()
        lost.add_metric([], self._lost())
        yield lost
        yield metric_names.LOOP_LAG.gauge(self._lag())
        yield metric_names.LAST_RELOAD.gauge(float(self._reload_succeeded()))
        build = metric_names.BUILD_INFO.gauge()
        build.add_metric([__version__], 1)
        yield build


def of_requests(by_model: Mapping[str, RequestCounters]) -> Iterator[Metric]:
    count = metric_names.REQUESTS.counter()
    for model, counters in by_model.items():
        for status, number in zip(STATUS_CLASSES, counters.by_status, strict=True):
            count.add_metric([model, status], number)
    yield count
    yield histogram(metric_names.REQUEST_SECONDS, {model: counters.seconds for model, counters in by_model.items()})
    yield histogram(metric_names.WAITING_SECONDS, {model: counters.waited for model, counters in by_model.items()})
    yield histogram(
        metric_names.FIRST_BYTE_SECONDS, {model: counters.first_byte for model, counters in by_model.items()}
    )


def of_tokens(by_model: Mapping[str, RequestCounters]) -> Iterator[Metric]:
    prompt, completion = metric_names.PROMPT_TOKENS.counter(), metric_names.COMPLETION_TOKENS.counter()
    cached = metric_names.CACHED_PROMPT_TOKENS.counter()
    for model, counters in by_model.items():
        prompt.add_metric([model], counters.prompt_tokens)
        cached.add_metric([model], counters.cached_prompt_tokens)
        completion.add_metric([model], counters.completion_tokens)
    yield from (prompt, cached, completion)
    yield histogram(
        metric_names.TOKENS_PER_SECOND, {model: counters.tokens_per_s for model, counters in by_model.items()}
    )


def of_refusals(refusals: Mapping[str, int]) -> Metric:
    count = metric_names.REFUSALS.counter()
    for code in metric_names.LABELS["code"][1]:
        count.add_metric([code], refusals.get(code, 0))
    return count


def of_loads(by_model: Mapping[str, LoadCounters]) -> Iterator[Metric]:
    loads, stops = metric_names.LOADS.counter(), metric_names.STOPS.counter()
    crashes, early = metric_names.CRASHES.counter(), metric_names.EARLY_EVICTIONS.counter()
    for model, counters in by_model.items():
        crashes.add_metric([model], counters.crashes)
        early.add_metric([model], counters.early_evictions)
        for outcome in OUTCOMES:
            loads.add_metric([model, outcome], counters.outcomes[outcome])
        for cause in Cause:
            stops.add_metric([model, cause.value], counters.stops[cause.value])
    yield from (loads, stops, crashes, early)
    yield histogram(metric_names.LOAD_SECONDS, {model: counters.seconds for model, counters in by_model.items()})
    yield histogram(metric_names.STOP_SECONDS, {model: counters.stop_seconds for model, counters in by_model.items()})
    yield histogram(metric_names.WAKE_SECONDS, {model: counters.wake_seconds for model, counters in by_model.items()})


def of_view(view: View) -> Iterator[Metric]:
    waiting, in_flight = metric_names.WAITING.gauge(), metric_names.IN_FLIGHT.gauge()
    failures, phases = metric_names.FAILURES_IN_A_ROW.gauge(), metric_names.MODEL_PHASE.gauge()
    for model in view.models:
        waiting.add_metric([model.name], model.waiting)
        in_flight.add_metric([model.name], model.in_flight)
        failures.add_metric([model.name], model.failures)
        for phase in Phase:
            phases.add_metric([model.name, phase.value], model.phase is phase)
    yield from (waiting, in_flight, failures, phases)
    yield metric_names.OLDEST_WAITING.gauge(view.now - view.queue[0].since if view.queue else 0.0)


def histogram(figure: Figure, spreads: Mapping[str, Spread]) -> Metric:
    """Only models with observations: an empty histogram is twenty useless lines."""
    family = figure.histogram()
    for model, spread in spreads.items():
        if any(spread.counts):
            family.add_metric([model], spread.buckets(), spread.total)
    return family


class _Collected:
    """What `generate_latest` needs of a registry."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        return self.metrics
