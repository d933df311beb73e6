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

    from hotseat.fleet.records import CatalogRecord

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


def lines_in(work: Callable[[], object]) -> int:
    """How many lines of Python it runs."""
    lines = 0

    def count(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_a_catalog_of_its_own_costs_the_same_however_many_others_have_one() -> None:
    """A host arrives with 50 models of its own definition, is defined anew and leaves."""
    costs = []
    for others in (2, 100):
        rig, offers = RosterRig(), [fleet_catalog(*(f"model-{n}" for n in range(50)))] * (others + 2)
        for number, catalog in enumerate(offers[2:]):
            rig.write(Bucket.CATALOGS, f"digest-{number}", catalog)
            rig.hosts(host(f"h{number}", catalog=f"digest-{number}"))

        def come_and_go(rig: RosterRig = rig, mine: CatalogRecord = offers[0]) -> None:
            rig.write(Bucket.CATALOGS, "digest-1a", mine).hosts(host("new", catalog="digest-1a"))
            rig.write(Bucket.CATALOGS, "digest-1b", mine).hosts(host("new", catalog="digest-1b"))
            rig.remove(Bucket.HOSTS, "new")

        costs.append(lines_in(come_and_go))

    assert costs[1] < 1.5 * costs[0]


def test_a_known_host_with_a_new_address_that_cannot_be_reached_is_passed_over() -> None:
    """An address is checked when it changes, not only when its host joins."""
    rig = RosterRig().hosts(host("a", there("qwen")))

    rig.hosts(host("a", there("qwen"), address="http://a:90004"))

    assert rig.roster.hosts.get(HostName("a")) is None
    assert rig.roster.malformed == 1
