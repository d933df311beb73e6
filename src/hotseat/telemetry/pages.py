"""Prometheus metrics of what only some have: conversations, GPUs, a fleet, API keys; and of hotseat's own process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.activity.usage_store import Used
from hotseat.fleet.view import Agreement
from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from hotseat.activity.usage import Account
    from hotseat.fleet.view import FleetView
    from hotseat.identifiers import Bytes, DeviceName, ModelName
    from hotseat.memory.measurement import Sensors
    from hotseat.scheduling.view import View


class ConversationPage(Collector):
    """Of saved conversations, for the models that keep them."""

    def __init__(self, view: Callable[[], View], kept: Callable[[ModelName], tuple[int, Bytes]]) -> None:
        """`kept`: how many conversations of a model are on disk, and their size."""
        self._view = view
        self._kept = kept

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        seen = [(model.name, model.conversations) for model in self._view().models if model.conversations]
        size, gained = metric_names.CONVERSATION_BYTES.gauge(), metric_names.CONVERSATION_SECONDS.counter()
        for name, conversations in seen:
            _, taken = self._kept(name)
            size.add_metric([name], taken)
            gained.add_metric([name], conversations.gained_s)
        yield from (size, gained)


class DevicePage(Collector):
    """Of the GPUs, of one moment: drivers may block, so they are asked before the page is printed."""

    def __init__(self, seen: Mapping[DeviceName, Sensors]) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        """What a driver does not report has no sample."""
        use, power = metric_names.DEVICE_UTILIZATION.gauge(), metric_names.DEVICE_POWER.gauge()
        temperature = metric_names.DEVICE_TEMPERATURE.gauge()
        for device, sensors in self._seen.items():
            figures = ((use, sensors.utilization), (temperature, sensors.celsius), (power, sensors.watts))
            for family, value in figures:
                if value is not None:
                    family.add_metric([device], value)
        yield from (use, temperature, power)


class FleetPage(Collector):
    """Of the fleet as this host sees it. Labels are current hosts, never models on hosts."""

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


class KeyPage(Collector):
    """Of API keys. Only configured keys have a label, by name and never by secret."""

    def __init__(self, accounts: Callable[[], Sequence[Account]], used: Callable[[], Mapping[str, Used]]) -> None:
        """`used`: by the name of the key."""
        self._accounts = accounts
        self._used = used

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        requests, refused = metric_names.KEY_REQUESTS.counter(), metric_names.KEY_REFUSED.counter()
        seconds = metric_names.KEY_DEVICE_SECONDS.counter()
        for account in self._accounts():
            requests.add_metric([account.name], account.requests)
            refused.add_metric([account.name], account.refused)
            seconds.add_metric([account.name], account.device_s)
        yield from (requests, refused, seconds, self._tokens())

    def _tokens(self) -> Metric:
        tokens, by_key = metric_names.KEY_TOKENS.counter(), self._used()
        for account in self._accounts():
            used = by_key.get(account.name, Used())
            tokens.add_metric([account.name, metric_names.PROMPT], used.prompt)
            tokens.add_metric([account.name, metric_names.CACHED], used.cached)
            tokens.add_metric([account.name, metric_names.COMPLETION], used.completion)
            tokens.add_metric([account.name, metric_names.ESTIMATED], used.estimated)
        return tokens


class ProcessPage(Collector):
    """Of hotseat's own process: its tasks, and the log lines and traces that it dropped."""

    def __init__(self, lines_dropped: Callable[[], int], traces_dropped: Callable[[], int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines_dropped, self._traces_dropped = lines_dropped, traces_dropped

    def describe(self) -> Iterable[Metric]:
        """Nothing, as in metrics_page.py."""
        return ()

    def collect(self) -> Iterator[Metric]:
        # Leaked tasks would show here first.
        yield metric_names.TASKS.gauge(len(asyncio.all_tasks(self._loop)))
        lines, traces = metric_names.LOG_LINES_DROPPED.counter(), metric_names.TRACES_DROPPED.counter()
        lines.add_metric([], self._lines_dropped())
        traces.add_metric([], self._traces_dropped())
        yield from (lines, traces)
