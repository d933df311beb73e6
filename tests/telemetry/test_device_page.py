"""GPUs in metrics: use, temperature and power, as far as drivers report them."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hotseat.identifiers import DeviceName
from hotseat.memory.measurement import Sensors
from hotseat.telemetry.device_page import DevicePage

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
