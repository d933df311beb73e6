"""The metrics are an interface: the output is exactly what the documentation lists."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripts.make_docs import DOCS
from tests.support.catalogs import sleeps
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.waiting import come_true

from hotseat.activity.recent import Tokens
from hotseat.activity.usage import Accounts
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import LoadFailed
from hotseat.fleet.view import Agreement, FleetConnection, FleetView, HostState, HostView
from hotseat.identifiers import DeviceName, HostName, ModelName
from hotseat.memory.measurement import Sensors
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.view import View
from hotseat.settings import ApiKey
from hotseat.telemetry.metric_names import LABELS
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.metrics_page import MetricsText
from hotseat.telemetry.pages import ConversationPage, DevicePage, FleetPage, KeyPage, ProcessPage

if TYPE_CHECKING:
    from prometheus_client import Metric

ROW = re.compile(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \| (.*?) \| ", re.MULTILINE)
ALPHA, BETA, DUD = ModelName("alpha"), ModelName("beta"), ModelName("dud")
SEEN = HostView(HostName("gpu2"), "http://gpu2", "1", {}, HostState.UNREACHABLE, 2.5, frozenset(), (), (), 7, 1)
GPU2 = replace(SEEN, certificate_ends=1_800_000_000.0, clock_ahead_s=-7.0)
FLEET = FleetView(HostName("gpu1"), FleetConnection.DISCONNECTED, (GPU2,), (), {Agreement.MADE: 3}, malformed=1)


async def printed() -> list[Metric]:
    """/metrics after every kind of event has happened once."""
    journal, launcher = Journal(), FakeLauncher(broken=("dud",))
    dispatcher = Dispatcher(
        Scheduler(catalog(spec("alpha", sleep=sleeps()), spec("beta", keeps_conversations=True), spec("dud"))),
        launcher,
        journal,
    )
    metrics = Metrics()
    text = MetricsText(metrics, dispatcher.views.of_all, lambda: 0.0)
    text.include(KeyPage(lambda: Accounts().open([ApiKey("secret", name="team")]), dict))
    text.include(ConversationPage(dispatcher.views.of_all, lambda _: (0, 0)))
    text.include(ProcessPage(lambda: 0, lambda: 0))
    text.include(FleetPage(lambda: FLEET))
    journal.listen(metrics.watch)
    metrics.finished(ALPHA, 200, 0.1, 0.2, 0.3)
    metrics.counted(ALPHA, Tokens(4, 3, 99.5), 99.5)
    metrics.refused("queue_full")
    await dispatcher.operator.load(ALPHA)
    await dispatcher.operator.load(BETA)
    await dispatcher.operator.load(ALPHA)
    with pytest.raises(LoadFailed):
        await dispatcher.operator.load(DUD)
    await dispatcher.operator.load(BETA)
    launcher.crash("beta", "killed")
    await come_true(lambda: not dispatcher.views.current().running())
    try:
        page = await text.render(DevicePage({DeviceName("gpu0"): Sensors(0.37, 61.0, 212.5)}))
        return list(text_string_to_metric_families(page.decode()))
    finally:
        await dispatcher.shut_down(within=0)


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    rows = ROW.findall((DOCS / "reference/metrics.md").read_text())
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def labels_of(family: Metric) -> frozenset[str]:
    return frozenset(label for sample in family.samples for label in sample.labels if label != "le")


async def test_what_is_printed_is_what_is_documented() -> None:
    """Each metric has the documented name, type and labels; none is missing, none is undocumented."""
    seen = {
        f"{family.name}_total" if family.type == "counter" else family.name: (family.type, labels_of(family))
        for family in await printed()
    }

    assert seen == documented()


async def test_labels_have_the_values_that_are_documented() -> None:
    """The configuration bounds the number of time series, whatever happens."""
    known = {label: set(values) for label, (_, values) in LABELS.items() if values}
    seen = {
        (label, value)
        for family in await printed()
        for sample in family.samples
        for label, value in sample.labels.items()
    }

    assert {(label, value) for label, value in seen if label in known and value not in known[label]} == set()
    assert {value for label, value in seen if label == "model"} == {"alpha", "beta", "dud"}


async def test_names_follow_the_conventions() -> None:
    """Counters end in _total, durations in _seconds, sizes in _bytes, and every metric has a description."""
    for family in await printed():
        assert family.documentation.endswith("."), family.name
        assert re.fullmatch(r"(hotseat|process)_[a-z_]+", family.name)
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_per_second"))


async def test_a_fleet_in_figures() -> None:
    """This host's state, and for each other host how long it was silent and what was sent to it."""
    seen = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in await printed()
        for sample in family.samples
        if family.name.startswith("hotseat_fleet") and sample.value
    }

    assert seen == {
        ("hotseat_fleet_connection", "disconnected"): 1,
        ("hotseat_fleet_hosts",): 1,
        ("hotseat_fleet_host_last_seen_seconds", "gpu2"): 2.5,
        ("hotseat_fleet_host_certificate_ends_timestamp_seconds", "gpu2"): 1_800_000_000,
        ("hotseat_fleet_host_clock_ahead_seconds", "gpu2"): -7,
        ("hotseat_fleet_requests_total", "forwarded", "gpu2"): 7,
        ("hotseat_fleet_requests_total", "gpu2", "refused"): 1,
        ("hotseat_fleet_claims_total", "made"): 3,
        ("hotseat_fleet_malformed_total",): 1,
    }


async def test_a_host_that_is_alone_says_so_in_figures() -> None:
    """Alerts about the fleet find a value there, too: a host outside a fleet is never disconnected."""
    text = MetricsText(Metrics(), lambda: View(0.0, (), ()), lambda: 0.0)
    text.include(FleetPage(lambda: None))
    page = (await text.render()).decode()

    assert 'hotseat_fleet_connection{connection="alone"} 1.0' in page
    assert 'hotseat_fleet_connection{connection="disconnected"} 0.0' in page
    assert "hotseat_fleet_hosts 0.0" in page
    assert "gpu" not in page
