"""The start of a host with thousands of models, in a fleet and without one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.fleet_size.probes import processor_since_start_s
from bench.fleet_size.rig import until_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.fleet_size.rig import Rig
    from tests.support.hotseat import Hotseat

ALONE = 0
"""Hosts of no fleet."""


@dataclass(frozen=True, slots=True)
class Start:
    models: int
    hosts: int
    """Of the fleet, with this one; ALONE: it joins none."""
    ready_s: float
    """Until it answers."""
    known_s: float
    """Until it knows all hosts."""
    processor_s: float
    """Of the host, until it answers."""


def starts(rig: Rig, first: Hotseat, models: int, sizes: Sequence[int], rounds: int) -> list[Start]:
    """`first` is a host of the fleet."""
    return [start(rig, first, models, size) for _ in range(rounds) for size in (ALONE, *sizes)]


def start(rig: Rig, first: Hotseat, models: int, hosts: int) -> Start:
    if hosts:
        rig.inject(hosts - 2)
        until_known(first, hosts - 1)
    began = time.monotonic()
    with rig.host("joins", in_fleet=bool(hosts)) as host:
        ready_s, processor_s = time.monotonic() - began, processor_since_start_s(host.process.pid)
        if hosts:
            until_known(host, hosts)
        return Start(models, hosts, ready_s, time.monotonic() - began, processor_s)
