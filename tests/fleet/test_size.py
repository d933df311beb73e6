"""The work for one record of another host depends neither on the number of hosts nor on that of models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fleet import RosterRig, fleet_catalog, host, there

from hotseat.fleet.drift import Drifts
from hotseat.fleet.records import encoded
from hotseat.fleet.store import Bucket, Revision, Written
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CALLS = 35
"""Of Python functions; it takes 23."""


def calls_in(work: Callable[[], object]) -> int:
    """How many Python functions it calls: unlike its time, this is the same on every machine."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("hosts", "models"), [(10, 100), (1000, 100), (10, 5000), (1000, 5000)])
def test_a_renewed_lease_costs_the_same_in_every_fleet(hosts: int, models: int) -> None:
    """A host that only says that it is still there is taken in with a few function calls."""
    catalog = fleet_catalog(*(f"model-{n}" for n in range(models)))
    rig, drifts = RosterRig(catalog=catalog), Drifts()
    rig.hosts(host("here"), *(host(f"h{n}", there(f"model-{n % models}")) for n in range(hosts)))
    drifts.look(rig.roster)
    renewed = Written("h3", encoded(host("h3", there("model-3"))), Revision(hosts + 1))

    def renewal() -> None:
        rig.roster.apply(Bucket.HOSTS, renewed, rig.now + 3)
        rig.roster.names.catalogs()
        drifts.look(rig.roster)

    assert calls_in(renewal) < MOST_CALLS


def test_a_known_host_with_a_new_address_that_cannot_be_reached_is_passed_over() -> None:
    """An address is checked when it changes, not only when its host joins."""
    rig = RosterRig().hosts(host("a", there("qwen")))

    rig.hosts(host("a", there("qwen"), address="http://a:90004"))

    assert rig.roster.hosts.get(HostName("a")) is None
    assert rig.roster.malformed == 1
