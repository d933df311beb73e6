"""What Prometheus is told of saved conversations and of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.conversations import kept_and_continued
from tests.support.fake_launcher import FakeLauncher, catalog, spec

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import DeviceName
from hotseat.memory.measurement import Sensors
from hotseat.scheduling.scheduler import Scheduler
from hotseat.telemetry.pages import ConversationPage, DevicePage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.identifiers import ModelName


class Measured:
    def __init__(self) -> None:
        self.launcher = FakeLauncher()
        models = catalog(spec("alpha", keeps_conversations=True), spec("plain"))
        self.dispatcher = Dispatcher(Scheduler(models), self.launcher, Journal())
        self._registry = CollectorRegistry()
        self._registry.register(ConversationPage(self.dispatcher.views.of_all, self._kept))

    def _kept(self, model: ModelName) -> tuple[int, int]:
        assert model == "alpha", "nothing is kept of others"
        return 3, 210 << 20

    def value(self, name: str, model: str = "alpha") -> float | None:
        return self._registry.get_sample_value(f"hotseat_conversations_{name}", {"model": model})


@pytest.fixture
async def measured() -> AsyncIterator[Measured]:
    measured = Measured()
    yield measured
    await measured.dispatcher.shut_down(within=0)


async def test_what_is_kept_and_what_it_was_good_for(measured: Measured) -> None:
    """The disk space, and the time that was saved; other models have neither."""
    await kept_and_continued(measured.dispatcher, measured.launcher, "alpha")

    assert (measured.value("bytes"), measured.value("gained_seconds_total")) == (210 << 20, 2.0)
    assert measured.value("bytes", "plain") is None


GPU0, GPU1 = DeviceName("gpu0"), DeviceName("gpu1")


def values(seen: dict[DeviceName, Sensors]) -> dict[tuple[str, str], float]:
    families = text_string_to_metric_families(generate_latest(DevicePage(seen)).decode())
    return {(each.name, each.labels["device"]): each.value for family in families for each in family.samples}


def test_what_is_reported_has_a_sample() -> None:
    """Zero is a figure; what a driver does not report has no sample, which would look like zero."""
    assert values({GPU0: Sensors(0.37, 61.0, 212.5), GPU1: Sensors(0.0, None, None)}) == {
        ("hotseat_device_utilization_ratio", "gpu0"): 0.37,
        ("hotseat_device_utilization_ratio", "gpu1"): 0.0,
        ("hotseat_device_temperature_celsius", "gpu0"): 61.0,
        ("hotseat_device_power_watts", "gpu0"): 212.5,
    }


def test_a_machine_without_gpus_has_no_samples() -> None:
    """The page stays valid."""
    assert values({}) == {}
