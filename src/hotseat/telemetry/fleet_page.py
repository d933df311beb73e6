"""Prometheus metrics of the fleet as this host sees it. Labels are current hosts, never models on hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.fleet.view import Agreement, HostStanding
from hotseat.scheduling.lifecycle import Phase
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
        yield of_standing(metric_names.ALONE if view is None else view.standing.value)
        yield metric_names.FLEET_HOSTS.gauge(len(view.hosts) if view else 0)
        yield from of_hosts(view)
        yield from of_records(view)


def of_standing(present: str) -> Metric:
    family = metric_names.FLEET_STANDING.gauge()
    for standing in metric_names.STANDINGS:
        family.add_metric([standing], standing == present)
    return family


def of_hosts(view: FleetView | None) -> Iterator[Metric]:
    heard, shunned = metric_names.FLEET_HEARD.gauge(), metric_names.FLEET_SHUNNED.gauge()
    ready, requests = metric_names.FLEET_READY.gauge(), metric_names.FLEET_REQUESTS.counter()
    for host in view.hosts if view else ():
        heard.add_metric([host.name], host.heard_s)
        shunned.add_metric([host.name], host.standing is HostStanding.SHUNNED)
        ready.add_metric([host.name], sum(each.phase == Phase.READY.value for each in host.residents))
        requests.add_metric([host.name, metric_names.PASSED_ON], host.passed_on)
        requests.add_metric([host.name, metric_names.TURNED_AWAY], host.turned_away)
    yield from (heard, shunned, ready, requests)


def of_records(view: FleetView | None) -> Iterator[Metric]:
    claims, malformed = metric_names.FLEET_CLAIMS.counter(), metric_names.FLEET_MALFORMED.counter()
    for agreement in Agreement:
        claims.add_metric([agreement.value], view.agreements.get(agreement, 0) if view else 0)
    malformed.add_metric([], view.malformed if view else 0)
    yield from (claims, malformed)
