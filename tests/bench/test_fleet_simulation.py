"""A small simulated fleet has the properties documented for large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.fleet.figures import jain
from bench.fleet.simulated_fleet import POLICIES, catalog_of, simulate
from bench.fleet.simulated_host import Clock
from bench.fleet.workload import Workload, workload

from hotseat.fleet.records import encoded

if TYPE_CHECKING:
    from bench.fleet.figures import Figures

pytestmark = pytest.mark.deep

HOSTS, MODELS, REQUESTS = 20, 200, 20_000
BEGINNING = 3_000


@pytest.fixture(scope="module")
def day() -> Figures:
    return run("hotseat", REQUESTS)


def run(policy: str, requests: int) -> Figures:
    return simulate(policy, workload(HOSTS, MODELS, requests, seed=1), POLICIES[policy])


def test_nearly_everybody_is_served(day: Figures) -> None:
    """Requests break only if their host fails and are refused only if the queue is full."""
    assert day.served + day.refused + day.broken == REQUESTS
    assert day.served >= 0.995 * REQUESTS
    assert 0 < day.broken < 30


def test_models_are_loaded_once_for_one_reason(day: Figures) -> None:
    """Claims and records keep two hosts from loading the same model at the same time."""
    assert day.doubled <= 0.001 * day.loads
    assert day.loads < 0.25 * REQUESTS


def test_waits_are_those_of_loads(day: Figures) -> None:
    """More than half do not wait, and very few wait longer than a large model takes to load."""
    assert day.at_once > 0.5
    assert day.wait_mean_s < 7
    assert day.wait_p99_s < 75


def test_hosts_say_little(day: Figures) -> None:
    """A host writes well below one message per second, because writes depend on phases and time only."""
    assert 1 / 3 < day.writes_per_host_s < 0.8
    assert day.record_bytes < 1000


def test_a_fleet_loads_less_than_hosts_that_know_nothing_of_each_other() -> None:
    """The same requests are placed by the fleet, at random and by least connections."""
    ours, others = run("hotseat", BEGINNING), [run(policy, BEGINNING) for policy in ("random", "least connections")]

    assert all(ours.loads < 0.75 * other.loads for other in others)
    assert all(ours.wait_mean_s < 0.2 * other.wait_mean_s for other in others)


def test_clients_come_back_where_that_costs_nothing() -> None:
    """With few models and many replicas, each client has its own replica, and waits do not grow."""
    few = workload(HOSTS, 6, 4000, seed=1)
    ours, without = (simulate(policy, few, POLICIES[policy]) for policy in ("hotseat", "without affinity"))

    assert ours.affinity > 1.2 * without.affinity
    assert ours.wait_mean_s < 1.2 * without.wait_mean_s


def test_the_same_seed_gives_the_same_day() -> None:
    """Every figure is equal, so anybody can repeat them."""
    assert run("hotseat", 1000) == run("hotseat", 1000)


def test_small_fleets_have_large_hosts_too() -> None:
    """Otherwise a large model would fit on no host."""
    work = workload(10, 50, 100, seed=7)

    assert max(machine.gib for machine in work.machines) == 80
    assert {model.gib for model in work.models} == {5, 9, 18, 40, 70}
    assert len(work.machines) == 10
    assert len(work.models) == 50


def test_a_day_has_a_noon_and_a_night() -> None:
    """There are three times as many requests at noon."""
    work: Workload = workload(100, 100, 20_000, seed=1)
    asked = [0] * 4
    for ask in work.asks():
        asked[min(3, int(4 * ask.at / work.day_s))] += 1

    assert asked[1] + asked[2] > 1.7 * (asked[0] + asked[3])


def test_the_clock_keeps_the_order_of_a_moment() -> None:
    """Events of the same time run in the order in which they were scheduled."""
    clock, seen = Clock(), list[str]()
    clock.at(2.0, seen.append, "later")
    clock.at(1.0, seen.append, "first")
    clock.at(1.0, seen.append, "second")
    clock.run_until(1.5)
    assert (seen, clock.now) == (["first", "second"], 1.5)
    clock.run_until(3.0)

    assert seen == ["first", "second", "later"]


def test_a_large_catalog_fits_into_a_message() -> None:
    """NATS accepts 1 MiB by default, and ten thousand models take 0.7 MB."""
    catalog = encoded(catalog_of(workload(10, 10_000, 1, seed=1)))

    assert len(catalog) == pytest.approx(700_000, rel=0.05)


def test_work_is_even_when_all_have_the_same() -> None:
    """And one over the number of hosts when one has everything."""
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
