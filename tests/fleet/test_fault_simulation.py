"""The production fleet code with simulated faults of NATS, hosts, network and operators, on a virtual clock."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from bench.fleet_faults.world import simulate
from tests.support.depth import by_depth

from hotseat.fleet import moves, name_owner
from hotseat.fleet.catalog import FleetCatalog
from hotseat.fleet.claim_table import CLAIM_S, Held
from hotseat.fleet.forwarded import ForwardedRequests
from hotseat.fleet.host_selector import HostSelector
from hotseat.fleet.orders import Drain
from hotseat.fleet.own_state import UnsavedState
from hotseat.fleet.reconciler import Reconciler
from hotseat.fleet.records import HostOrder
from hotseat.fleet.roster import Absences, Roster
from hotseat.fleet.store import BegunAnew, Bucket
from hotseat.identifiers import HostName
from hotseat.relay.exchange.fleet_hop import FleetHop

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.fleet.records import Claim, HostRecord
    from hotseat.fleet.route import Route
    from hotseat.fleet.store import Change, Revision
    from hotseat.identifiers import ClientId, ModelName

pytestmark = pytest.mark.uncounted

PARTS = 10
SEEDS = by_depth(2, deep=200)
"""In each part."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.longer
@pytest.mark.timeout(by_depth(300, 0))
def test_any_faults_at_any_time(part: int) -> None:
    """No request is executed twice or waits for ever, orders hold, and afterwards all hosts agree and serve."""
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        result = simulate(seed)
        assert not result.violations, f"seed {seed} {result.faults}: {result.violations[0]}"


def test_the_same_seed_in_another_process() -> None:
    """It gives the same run, so that whatever was found can be found again: nothing depends on the order of a set."""
    script = "from bench.fleet_faults.world import simulate; print(simulate(56))"

    def run(hash_seed: str) -> bytes:
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, check=True).stdout

    assert run("1") == run("2")


FOUND = {
    "dead catalog": (2, ("new configuration",)),
    "no answer": (2, ("host stopped",)),
    "claims after a loss": (7, ("nats loses its state", "move away and back")),
    "claims of an empty store": (81, ("nats loses its state", "nats loses its state", "host killed")),
    "order ignored": (30, ("order", "order", "nats loses its state")),
    "unknown model": (2, ("host killed",)),
    "moves": (0, ("two moves", "two moves")),
    "needless load": (2, ("nats away",)),
    "stolen name": (0, ("name stolen with the address",)),
    "claims of a stranger": (786, ("name stolen", "move", "name stolen", "nats away")),
    "catalog not there yet": (1457, ("host cut off from nats", "nats slow", "new configuration", "two moves")),
    "replica of a host that returns later": (1466, ("new configuration", "nats away")),
    "order unknown to the sender": (1471, ("order", "nats slow", "name stolen", "host cut off from nats")),
    "name returned late": (1820, ("name stolen with the address", "nats away")),
    "right to stop that ends early": (2145, ("move away and back", "two moves")),
    "forgotten order": (21, ("order", "nats away", "order", "host restarted", "host killed")),
    "news while waiting": (59, ("order", "nats away", "order", "host restarted", "host killed")),
    "hasty drain": (4, ("order",)),
    "endless drain": (3, ("order",)),
    "stalled path": (1, ("path stalled",)),
    "refused by a host that stops": (10, ("new configuration",)),
    "chosen host that has left": (21885, ("order", "nats loses messages", "watches lapse", "new configuration")),
    "revoked order": (620, ("order", "order", "host cut off from nats", "nats loses its state")),
}
"""Seeds and faults by which the simulation has found defects."""


@pytest.mark.parametrize("defect", FOUND)
def test_a_defect_that_the_simulation_has_found(defect: str) -> None:
    """It does not return."""
    seed, faults = FOUND[defect]

    assert simulate(seed, *faults).violations == ()


ALLOWED = {
    "forwarded by records from before NATS was away": (4110, ("clock wrong", "nats away")),
    "forwarded by a host that was stopped until then": (
        5388,
        ("name stolen with the address", "host stopped", "watches lapse", "host killed"),
    ),
    "chosen while NATS is slow": (6010, ("new configuration", "nats slow")),
    "chosen by a host that joins before others are back": (
        1889,
        ("two moves", "nats away", "host restarted", "name stolen"),
    ),
    "evicted right after two moves": (9556, ("two moves",)),
    "evicted while a move stops the other copy": (8483, ("move away and back", "two moves", "move away and back")),
    "name taken after that of a thief has ended": (
        3065,
        ("name stolen", "host stopped", "name stolen with the address", "nats away"),
    ),
    "left before its requests had ended": (
        21322,
        ("nats slow", "name stolen with the address", "name stolen with the address", "new configuration"),
    ),
    "host stopped while it leaves": (2202, ("host stopped", "new configuration", "watches lapse")),
}
"""Seeds and faults with which the simulation has reported what a fleet may do, or what no real host does."""


@pytest.mark.parametrize("what", ALLOWED)
def test_what_looks_like_a_defect_and_is_none(what: str) -> None:
    """It is not reported."""
    seed, faults = ALLOWED[what]

    assert simulate(seed, *faults).violations == ()


def broken(seed: int, *faults: str) -> set[str]:
    """The rules that a run violates."""
    return {violation.rule for violation in simulate(seed, *faults).violations}


def test_an_internal_error_while_the_log_is_off(caplog: pytest.LogCaptureFixture) -> None:
    """It is found, as `just simulate-faults` prints no log."""
    caplog.set_level(logging.CRITICAL)

    with patch.object(Reconciler, "go", fails):
        assert "internal error" in broken(0, "nats away")


async def fails(reconciler: Reconciler) -> None:
    raise KeyError("a planted bug")


# Planted bugs: the defects again, one at a time


def every_catalog_counts(catalog: FleetCatalog, digest: str) -> None:
    pass


async def nobody_checks(requests: ForwardedRequests) -> None:
    pass


def revisions_go_on(reconciler: Reconciler, bucket: Bucket, change: Change) -> None:
    if not isinstance(change, BegunAnew):
        act(reconciler, bucket, change)


def lost_orders_are_over(roster: Roster, bucket: Bucket, key: str, now: float) -> None:
    remove(roster, bucket, key, now)
    if bucket is Bucket.ORDERS:
        roster.orders._orders.pop(HostName(key), None)


remove, act = Roster._remove, Reconciler.on_change


def nobody_is_expected_back(absences: Absences, host: str, catalog: str, now: float) -> None:
    pass


class Anybody:
    """Everybody may stop a replica."""

    def __init__(self, *_: Any) -> None: ...
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...


async def believed(*_: Any) -> None:
    pass


def missing_is_gone(absences: Absences, host: str, now: float) -> bool:
    return False


def address_is_enough(holder: HostRecord, record: HostRecord) -> bool:
    return holder.address == record.address


def nothing_is_kept(state: UnsavedState, orders: frozenset[str], ordered_ms: int) -> None:
    pass


def no_order_is_older(order: HostOrder, other: HostOrder) -> bool:
    return False


def as_decided(selector: HostSelector, model: ModelName, client: ClientId, chosen: HostName, _: object) -> Route:
    return selector._at(chosen)


def nothing_is_handed_over(drain: Drain, me: Any, now: float) -> list[Any]:
    return []


def low_revisions_do_not_count(roster: Roster, key: str, claim: Claim, revision: Revision, now: float) -> None:
    if roster._ledgers[Bucket.CLAIMS].wrote(key, revision):
        roster.claims.put(Held(key, claim, revision, now + CLAIM_S))


def refused_at_once(hop: FleetHop, error: HotseatError) -> None:
    hop._request.refused(error)


async def nothing_stops(drain: Drain, now: float, *, may_load: bool) -> list[Any]:
    return []


@pytest.mark.deep
@pytest.mark.parametrize(
    ("defect", "rule", "bugs"),
    [
        ("dead catalog", "dead catalog", [(FleetCatalog, "disuse", every_catalog_counts)]),
        ("no answer", "no answer", [(ForwardedRequests, "keep_checking", nobody_checks)]),
        ("claims after a loss", "moves", [(Reconciler, "on_change", revisions_go_on)]),
        ("claims of an empty store", "refusal", [(Roster, "agreed", low_revisions_do_not_count)]),
        ("refused by a host that stops", "refusal", [(FleetHop, "refused_here", refused_at_once)]),
        ("order ignored", "order ignored", [(Roster, "_remove", lost_orders_are_over)]),
        ("unknown model", "unknown model", [(Absences, "left", nobody_is_expected_back)]),
        (
            "moves",
            "moves",
            [(moves, "right_to_stop", Anybody), (moves.Moves, "_check_still_ready", believed)],
        ),
        ("needless load", "needless load", [(Absences, "is_unconfirmed", missing_is_gone)]),
        ("stolen name", "stolen name", [(name_owner, "_is_same_machine", address_is_enough)]),
        ("forgotten order", "order ignored", [(UnsavedState, "keep_orders", nothing_is_kept)]),
        ("news while waiting", "needless load", [(HostSelector, "_alone", as_decided)]),
        ("hasty drain", "hasty drain", [(Drain, "_staying", nothing_is_handed_over)]),
        ("endless drain", "endless drain", [(Drain, "go", nothing_stops)]),
        ("revoked order", "revoked order", [(HostOrder, "is_older_than", no_order_is_older)]),
        ("stalled path", "no answer", [(ForwardedRequests, "keep_checking", nobody_checks)]),
    ],
)
def test_planted_bugs_are_found(defect: str, rule: str, bugs: list[tuple[Any, str, Any]]) -> None:
    """The simulation finds each defect, planted again, with the seed that has found it first or a near one."""
    seed, faults = FOUND[defect]
    patches = [patch.object(*bug) for bug in bugs]
    try:
        for each in patches:
            each.start()
        is_found = any(rule in broken(near, *faults) for near in range(seed, seed + 6))
    finally:
        for each in patches:
            each.stop()

    assert is_found
