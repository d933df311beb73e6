"""The metrics page: tallies and the scheduler's view as Prometheus families, made when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from hotseat import __version__
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from hotseat.scheduling.view import View
    from hotseat.telemetry.tally import LoadTally, RequestTally, Spread

STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


class Page(Collector):
    def __init__(
        self,
        requests: Mapping[str, RequestTally],
        loads: Mapping[str, LoadTally],
        view: Callable[[], View],
        lag: Callable[[], float],
        reload_succeeded: Callable[[], bool],
    ) -> None:
        self._requests = requests
        self._loads = loads
        self._view = view
        self._lag = lag
        self._reload_succeeded = reload_succeeded

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would otherwise collect once, before there is a view."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from of_requests(self._requests)
        yield from of_loads(self._loads)
        yield from of_view(self._view())
        yield gauge("hotseat_loop_lag_seconds", "Worst lag of the event loop since the last scrape.", self._lag())
        succeeded = float(self._reload_succeeded())
        yield gauge("hotseat_config_last_reload_success", "1 if the configuration in use is the newest.", succeeded)
        build = GaugeMetricFamily("hotseat_build_info", "Which hotseat this is.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build


def of_requests(tallies: Mapping[str, RequestTally]) -> Iterator[Metric]:
    count = CounterMetricFamily("hotseat_requests", "Finished requests.", labels=["model", "status"])
    for model, tally in tallies.items():
        for status, number in zip(STATUS_CLASSES, tally.by_status, strict=True):
            if number:
                count.add_metric([model, status], number)
    yield count
    spreads = {model: tally.seconds for model, tally in tallies.items()}
    yield histogram("hotseat_request_seconds", "From a request's arrival to its last byte.", spreads)
    spreads = {model: tally.waited for model, tally in tallies.items()}
    yield histogram("hotseat_request_waiting_seconds", "From a request's arrival to its lease.", spreads)
    spreads = {model: tally.first_byte for model, tally in tallies.items()}
    yield histogram("hotseat_first_byte_seconds", "From a request's arrival to its answer's first byte.", spreads)


def of_loads(tallies: Mapping[str, LoadTally]) -> Iterator[Metric]:
    loads = CounterMetricFamily("hotseat_loads", "Ended starts of model servers.", labels=["model", "outcome"])
    stops = CounterMetricFamily("hotseat_stops", "Stops of model servers by cause.", labels=["model", "cause"])
    early = CounterMetricFamily(
        "hotseat_early_evictions", "Evictions of models that were ready for less time than they load.", labels=["model"]
    )
    for model, tally in tallies.items():
        early.add_metric([model], tally.early_evictions)
        for outcome, number in tally.outcomes.items():
            loads.add_metric([model, outcome], number)
        for cause, number in tally.stops.items():
            stops.add_metric([model, cause], number)
    yield loads
    yield stops
    yield early
    spreads = {model: tally.seconds for model, tally in tallies.items()}
    yield histogram("hotseat_load_seconds", "From the start of a model server to its readiness.", spreads)


def of_view(view: View) -> Iterator[Metric]:
    waiting = GaugeMetricFamily("hotseat_waiting", "Requests in the line.", labels=["model"])
    in_flight = GaugeMetricFamily("hotseat_in_flight", "Requests that hold a lease.", labels=["model"])
    failures = GaugeMetricFamily("hotseat_failures_in_a_row", "Failed starts and crashes in a row.", labels=["model"])
    phases = GaugeMetricFamily("hotseat_model_phase", "1 for the phase a model is in.", labels=["model", "phase"])
    for model in view.models:
        waiting.add_metric([model.name], model.waiting)
        in_flight.add_metric([model.name], model.in_flight)
        failures.add_metric([model.name], model.failures)
        for phase in Phase:
            phases.add_metric([model.name, phase.value], model.phase is phase)
    yield from (waiting, in_flight, failures, phases)
    oldest = view.now - view.line[0].since if view.line else 0.0
    yield gauge("hotseat_waiting_oldest_seconds", "How long the oldest request in the line has waited.", oldest)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def histogram(name: str, text: str, spreads: Mapping[str, Spread]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["model"])
    for model, spread in spreads.items():
        family.add_metric([model], spread.buckets(), spread.total_s)
    return family
