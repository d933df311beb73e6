"""In whatever order changes arrive, rosters agree in the end, and requests are only sent to allowed hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from tests.support.fleet import CATALOG, GPU, there

from hotseat.fleet import placement
from hotseat.fleet.placement import Load, Nowhere, Serve, place
from hotseat.fleet.records import CatalogRecord, Claim, DeviceBudget, HostOrder, HostRecord, Offer, decoded, encoded
from hotseat.fleet.replicas import to_keep
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.roster import PresentHosts, Roster
from hotseat.fleet.store import BegunAnew, Bucket, CaughtUp, Change, Removed, Revision, Written
from hotseat.identifiers import ClientId, HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

pytestmark = pytest.mark.uncounted

HOSTS, MODELS = [HostName(name) for name in "abcd"], [ModelName(name) for name in ("m", "n", "o")]
PHASES = ["ready", "loading", "asleep", "cold", "draining", "unloading", "unheard of"]
LABELS = [{}, {"gpu": "a100"}, {"gpu": "b200"}]
LATER = 60.0
"""When every claim has lapsed: claims are counted from when they were received, and that differs."""

small = st.integers(0, 3)
residents = st.builds(
    lambda model, phase, gib, busy, pinned: there(model, phase, gib, in_flight=busy, pinned=pinned),
    st.sampled_from(MODELS),
    st.sampled_from(PHASES),
    small,
    small,
    st.sampled_from([False, False, False, True]),
)
records = st.builds(
    lambda name, models, boot, labels, free, leaving, counts, releases: HostRecord(
        name=name,
        address=f"http://{name}",
        boot=str(boot),
        catalog=CATALOG,
        labels=labels,
        residents=models,
        devices={GPU: DeviceBudget(6 << 30, free << 30)} if counts else {},
        is_leaving=leaving,
        released=sorted(each.model for each in models) if releases else [],
    ),
    st.sampled_from(HOSTS),
    st.lists(residents, max_size=3, unique_by=lambda residence: residence.model),
    small,
    st.sampled_from(LABELS),
    small,
    st.sampled_from([False, False, True]),
    st.booleans(),
    st.booleans(),
)
catalogs = st.builds(
    lambda offers: CatalogRecord(dict(zip(MODELS, offers, strict=True))),
    st.lists(
        st.builds(
            lambda gib, labels, least: Offer(memory={GPU: gib << 30}, labels=labels, least=least, most=3),
            st.sampled_from([1, 2, 4, 9]),
            st.sampled_from(LABELS),
            st.sampled_from([0, 1]),
        ),
        min_size=3,
        max_size=3,
    ),
)
orders = st.builds(HostOrder, st.booleans(), st.booleans())
claims = st.builds(
    lambda model, host, replica: Claim(model, host, host, "", replica),
    st.sampled_from(MODELS),
    st.sampled_from(HOSTS),
    st.integers(0, 1),
)
writes = st.one_of(
    st.tuples(st.just(Bucket.HOSTS), records.map(lambda record: (str(record.name), record))),
    st.tuples(st.just(Bucket.ORDERS), st.tuples(st.sampled_from(HOSTS), orders)),
    st.tuples(st.just(Bucket.CLAIMS), claims.map(lambda claim: (f"{claim.model}.{claim.replica}", claim))),
    st.tuples(st.just(Bucket.CATALOGS), st.tuples(st.just(CATALOG), catalogs)),
    # Nobody removes a catalog or an order: if one is missing, the store has lost it, and it counts as before.
    st.tuples(st.sampled_from([Bucket.HOSTS, Bucket.CLAIMS]), st.tuples(st.sampled_from([*HOSTS, "m.0"]), st.none())),
    st.tuples(st.just(Bucket.HOSTS), st.tuples(st.sampled_from(HOSTS), st.just(HostOrder()))),
)
histories = st.tuples(catalogs, st.lists(writes, max_size=14)).map(
    lambda catalog_and_more: [(Bucket.CATALOGS, (CATALOG, catalog_and_more[0])), *catalog_and_more[1]]
)


@dataclass
class Delivery:
    """One way to receive a history: what is missed, what arrives twice, and in which order."""

    order: Sequence[float]
    missed: Sequence[bool]
    twice: Sequence[bool]


deliveries = st.builds(
    Delivery,
    *(st.lists(each, min_size=15, max_size=15) for each in (st.floats(0, 1), st.booleans(), st.booleans())),
)


@dataclass
class WrittenRecords:
    """All that was written, numbered, and what is there at the end: the world's own truth."""

    changes: list[tuple[Bucket, Written | Removed]]
    there: dict[Bucket, dict[str, Written]]

    @staticmethod
    def of(history: Sequence[tuple[Bucket, tuple[str, msgspec.Struct | None]]]) -> WrittenRecords:
        records = WrittenRecords([], {bucket: {} for bucket in Bucket})
        for number, (bucket, (key, record)) in enumerate(history, start=1):
            if record is None:
                records.changes.append((bucket, Removed(key, Revision(number))))
                records.there[bucket].pop(key, None)
            else:
                written = Written(key, encoded(record), Revision(number))
                records.changes.append((bucket, written))
                records.there[bucket][key] = written
        return records

    def hosts(self) -> dict[HostName, HostRecord]:
        found = {}
        for key, written in self.there[Bucket.HOSTS].items():
            try:
                found[HostName(key)] = decoded(written.value, HostRecord)
            except ValueError:
                continue
        return found

    def order(self, host: HostName) -> HostOrder:
        written = self.there[Bucket.ORDERS].get(host)
        return decoded(written.value, HostOrder) if written else HostOrder()

    def offer(self, model: ModelName) -> Offer | None:
        written = self.there[Bucket.CATALOGS].get(CATALOG)
        return decoded(written.value, CatalogRecord).offers.get(model) if written else None


def roster_after(records: WrittenRecords, delivery: Delivery, *, is_interrupted: bool) -> Roster:
    """A roster that received the history in this way, and the missed part after an interruption."""
    roster = Roster(HostName("me"))
    numbered = sorted(enumerate(records.changes), key=lambda each: delivery.order[each[0]])
    for number, (bucket, change) in numbered:
        if is_interrupted and delivery.missed[number]:
            continue
        for _ in range(1 + delivery.twice[number]):
            roster.apply(bucket, change, 0.0)
    if is_interrupted:
        for bucket in Bucket:
            anew: list[Change] = [BegunAnew(), *records.there[bucket].values(), CaughtUp()]
            for each in anew:
                roster.apply(bucket, each, 0.0)
        roster.hosts.settle(LATER)
    return roster


def snapshot(roster: Roster) -> Any:
    return (
        sorted((member.name, encoded(member.record)) for member in roster.hosts),
        sorted((model, member.name) for model in MODELS for member in roster.hosts.holders(model)),
        sorted((model, member.name) for model in MODELS for member, _ in roster.offering(model)),
        [roster.orders.of(host) for host in HOSTS],
        [roster.names.resolve(model) for model in MODELS],
        [without_hope(place(model, ClientId("x"), roster, LATER)) for model in MODELS],
        to_keep(roster, LATER),
    )


def without_hope(decision: Serve | Load | Nowhere) -> Serve | Load | Nowhere:
    """Whether waiting may help depends on who is expected back, which only those know who saw them leave."""
    return replace(decision, may_pass=False) if isinstance(decision, Nowhere) else decision


def judge(records: WrittenRecords, roster: Roster) -> None:
    """Every placement by the world's own truth."""
    hosts = records.hosts()
    for model in MODELS:
        decision = place(model, ClientId("x"), roster, LATER)
        if isinstance(decision, Nowhere):
            continue
        record, offer, order = hosts.get(decision.host), records.offer(model), records.order(decision.host)
        assert record is not None, f"{decision.host} is gone"
        assert not record.is_leaving
        assert not order.drained or (isinstance(decision, Serve) and model not in record.released)
        assert offer is not None
        assert offer.labels.items() <= record.labels.items(), "labelled out"
        phases = [residence.phase for residence in record.residents if residence.model == model]
        if isinstance(decision, Serve):
            assert phases[0] in ("ready", "loading", "asleep", "cold")
        else:
            assert not order.cordoned
            assert not {"ready", "loading", "asleep", "cold"}.intersection(phases)
            assert not record.devices or offer.memory[GPU] <= record.devices[GPU].budget


def tells_the_truth(history: Any, one: Delivery, other: Delivery) -> None:
    records = WrittenRecords.of(history)
    rosters = [
        roster_after(records, one, is_interrupted=False),
        roster_after(records, other, is_interrupted=False),
        roster_after(records, one, is_interrupted=True),
        roster_after(records, other, is_interrupted=True),
    ]
    for roster in rosters:
        judge(records, roster)
        assert snapshot(roster) == snapshot(rosters[0])


@given(histories, deliveries, deliveries)
def test_rosters_agree_and_no_request_goes_where_it_may_not(history: Any, one: Delivery, other: Delivery) -> None:
    """All rosters agree in the end, even if changes arrive late, twice or after an interruption."""
    tells_the_truth(history, one, other)


# Planted bugs


SEED = 1
"""With it the search finds each planted bug within a few examples."""
SEARCH = settings(
    max_examples=3000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def late_writes_are_believed(ledger: Ledger, key: str, revision: Revision) -> bool:
    ledger._gone[key] = revision
    return True


def what_has_gone_meanwhile_is_not_noticed(ledger: Ledger) -> list[str]:
    return []


def the_old_is_forgotten_at_once(ledger: Ledger) -> None:
    ledger._gone, ledger._present = {}, {}


def any_label_will_do(record: HostRecord, offer: Offer) -> bool:
    return True


def cordons_are_for_others(
    model: ModelName, roster: Roster, member: Any, offer: Offer, now: float
) -> placement.Obstacle | None:
    return placement.obstacle_to_serving(roster, member, offer, now)


def nothing_hinders_serving(roster: Roster, member: Any, offer: Offer | None, now: float) -> None:
    return None


def those_that_are_gone_stay(hosts: PresentHosts, name: HostName, now: float) -> None:
    pass


@pytest.mark.deep
@pytest.mark.parametrize(
    ("where", "name", "bug"),
    [
        (Ledger, "_is_later", late_writes_are_believed),
        (Ledger, "caught_up", what_has_gone_meanwhile_is_not_noticed),
        (Ledger, "begun_anew", the_old_is_forgotten_at_once),
        (placement, "is_labelled_for", any_label_will_do),
        (placement, "obstacle_to_loading", cordons_are_for_others),
        (placement, "obstacle_to_serving", nothing_hinders_serving),
        (PresentHosts, "_part", those_that_are_gone_stay),
    ],
)
def test_planted_bugs_are_found(where: Any, name: str, bug: Any) -> None:
    """The search finds each planted bug."""

    def is_broken(example: tuple[Any, Delivery, Delivery]) -> bool:
        try:
            tells_the_truth(*example)
        except AssertionError:
            return True
        return False

    with patch.object(where, name, bug):
        try:
            find(st.tuples(histories, deliveries, deliveries), is_broken, settings=SEARCH, random=Random(SEED))
        except NoSuchExample:
            pytest.fail(f"{bug.__name__} was not found")


def test_a_load_is_decided_in_some_worlds() -> None:
    """The search reaches a state in which placement serves, loads and refuses."""
    kinds = {Serve, Load, Nowhere}

    def has_all(example: tuple[Any, Delivery]) -> bool:
        roster = roster_after(WrittenRecords.of(example[0]), example[1], is_interrupted=True)
        return {type(place(model, ClientId("x"), roster, LATER)) for model in MODELS} == kinds

    assert find(st.tuples(histories, deliveries), has_all, settings=settings(SEARCH, derandomize=True))
