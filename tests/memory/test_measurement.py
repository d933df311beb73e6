"""What follows from a measurement."""

from __future__ import annotations

from tests.support.machines import GiB

from hotseat.identifiers import DeviceName
from hotseat.memory.measurement import DeviceReading, Reading, Use, footprint, merged

GPU, RAM = DeviceName("gpu0"), DeviceName("ram")


def test_foreign_is_what_is_used_and_not_ours() -> None:
    """Cached files are not used memory, so only our anonymous memory is subtracted."""
    reading = Reading(
        {GPU: DeviceReading(24 * GiB, 10 * GiB), RAM: DeviceReading(64 * GiB, 50 * GiB)},
        {40: {GPU: Use(12 * GiB), RAM: Use(2 * GiB, 30 * GiB)}, 41: {RAM: Use(GiB)}},
    )

    assert reading.foreign() == {GPU: 2 * GiB, RAM: 11 * GiB}
    assert reading.available() == {GPU: 22 * GiB, RAM: 53 * GiB}


def test_ours_may_be_newer_than_used() -> None:
    """Both are measured one after the other, so foreign memory is clamped to zero."""
    reading = Reading({GPU: DeviceReading(24 * GiB, 23 * GiB)}, {40: {GPU: Use(4 * GiB)}})

    assert reading.foreign() == {GPU: 0}


def test_nobody_knows_whose_the_memory_of_a_silent_device_is() -> None:
    """An unknown figure is missing, not zero."""
    reading = Reading({GPU: DeviceReading(24 * GiB, GiB), RAM: DeviceReading(GiB, GiB)}, silent=(GPU,))

    assert reading.foreign() == {RAM: 0}
    assert reading.available() == {GPU: 24 * GiB, RAM: GiB}


def test_a_server_in_a_container_is_not_foreign() -> None:
    """While one of our servers cannot be seen, no memory counts as foreign."""
    reading = Reading({GPU: DeviceReading(24 * GiB, GiB)}, elsewhere=(40,))

    assert reading.foreign() == {}


def test_a_footprint_on_a_silent_device_is_the_difference() -> None:
    """The decrease of free memory since the start is the server's, and never negative."""
    before = Reading({GPU: DeviceReading(24 * GiB, 20 * GiB), RAM: DeviceReading(64 * GiB, 60 * GiB)})
    now = Reading(
        {GPU: DeviceReading(24 * GiB, 8 * GiB), RAM: DeviceReading(64 * GiB, 61 * GiB)}, {40: {RAM: Use(1, 2)}}, (GPU,)
    )

    assert footprint(40, now, before) == {GPU: Use(12 * GiB), RAM: Use(1, 2)}
    assert footprint(40, before, now) == {}
    assert footprint(99, Reading(before.devices, silent=(GPU,)), now)[GPU] == Use(0)


def test_a_footprint_of_a_server_in_a_container_is_the_difference() -> None:
    """Its process tree is only the client's."""
    before = Reading({GPU: DeviceReading(24 * GiB, 20 * GiB)})
    now = Reading({GPU: DeviceReading(24 * GiB, 8 * GiB), RAM: DeviceReading(GiB, GiB)}, elsewhere=(40,))

    assert footprint(40, now, before) == {GPU: Use(12 * GiB)}


def test_the_most_of_each_is_kept() -> None:
    """Peaks of the two kinds of memory need not coincide."""
    assert merged({RAM: Use(5, 1)}, {RAM: Use(2, 9), GPU: Use(3)}) == {RAM: Use(5, 9), GPU: Use(3)}
    assert merged() == {}


def test_the_tighter_bound_wins() -> None:
    """A limit may apply to the total or to the free part, or be exceeded already."""
    machine = DeviceReading(64, 40)

    assert machine.at_most(DeviceReading(32, 30)) == DeviceReading(32, 30)
    assert machine.at_most(DeviceReading(100, 90)) == machine
    assert machine.at_most(DeviceReading(32, -3)) == DeviceReading(32, 0)
    assert (machine.used, Use(3, 4).total) == (24, 7)
