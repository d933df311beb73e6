"""Prometheus metrics of the fleet as this host sees it. Labels are current hosts, never models on hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.fleet.view import Agreement
from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from hotseat.fleet.view import FleetView


class FleetPage(Collector):
    def __init__(self, view: Callable[[], FleetView | None]) -> None:
        self._view = view
        """None: this host is not in a fleet."""

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        view = self._view()
        yield of_connection(metric_names.ALONE if view is None else view.connection.value)
        yield metric_names.FLEET_HOSTS.gauge(len(view.hosts) if view else 0)
        yield from of_hosts(view)
        yield from of_records(view)


def of_connection(present: str) -> Metric:
    family = metric_names.FLEET_CONNECTION.gauge()
    for connection in metric_names.CONNECTIONS:
        family.add_metric([connection], connection == present)
    return family


def of_hosts(view: FleetView | None) -> Iterator[Metric]:
    certificate, clock = metric_names.FLEET_CERTIFICATE.gauge(), metric_names.FLEET_CLOCK.gauge()
    last_seen, requests = metric_names.FLEET_LAST_SEEN.gauge(), metric_names.FLEET_REQUESTS.counter()
    for host in view.hosts if view else ():
        last_seen.add_metric([host.name], host.last_seen_s)
        requests.add_metric([host.name, metric_names.FORWARDED], host.passed_on)
        requests.add_metric([host.name, metric_names.REFUSED], host.turned_away)
        if host.certificate_ends is not None:
            certificate.add_metric([host.name], host.certificate_ends)
        if host.clock_ahead_s is not None:
            clock.add_metric([host.name], host.clock_ahead_s)
    yield from (last_seen, certificate, clock, requests)


def of_records(view: FleetView | None) -> Iterator[Metric]:
    claims, malformed = metric_names.FLEET_CLAIMS.counter(), metric_names.FLEET_MALFORMED.counter()
    for agreement in Agreement:
        claims.add_metric([agreement.value], view.agreements.get(agreement, 0) if view else 0)
    malformed.add_metric([], view.malformed if view else 0)
    yield from (claims, malformed)
