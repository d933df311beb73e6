"""Prometheus metrics of the GPUs, of one moment: drivers may block, so they are asked before the page is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from hotseat.telemetry import metric_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from hotseat.identifiers import DeviceName
    from hotseat.memory.measurement import Sensors


class DevicePage(Collector):
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
