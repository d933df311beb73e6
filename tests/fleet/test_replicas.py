"""How many hosts should have a model."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import ANY

from tests.support.fleet import QWEN, RosterRig, fleet_catalog, host, offer, there

from hotseat.fleet.placement import Load, Serve, place
from hotseat.fleet.replicas import Spare, one_more, to_keep, to_spare, too_many
from hotseat.identifiers import ClientId, HostName

if TYPE_CHECKING:
    from hotseat.fleet.records import HostRecord, Residence

A, B, THIS_HOST = map(HostName, ("a", "b", "here"))
SEVERAL = fleet_catalog("llama", "gemma", qwen=offer(most=3))


def waiting(seconds: float) -> Residence:
    return there("qwen", in_flight=4, waiting=2, slots=4, oldest_wait_s=seconds, load_s=10.0)


def more(*hosts: HostRecord) -> Load | None:
    rig = RosterRig(catalog=SEVERAL).hosts(*hosts)
    return one_more(QWEN, rig.roster, rig.now)


# One more


def test_waiting_longer_than_a_load_takes_is_a_reason_for_one_more() -> None:
    """If requests wait longer than a load takes, a replica with the next number is loaded."""
    assert more(host("a", waiting(11)), host("b")) == Load(
        QWEN,
        B,
        1,
        "its requests wait 11 s on all 1 hosts that have it, loading takes 10 s; b has enough free memory",
    )


def test_waiting_no_longer_than_a_load_takes_is_none() -> None:
    """If requests wait no longer than a load takes, no replica is added."""
    assert more(host("a", waiting(10)), host("b")) is None


def test_one_replica_without_a_line_is_enough() -> None:
    """If one replica has no queue, none is added."""
    assert more(host("a", waiting(60)), host("b", there("qwen", load_s=10.0)), host("c")) is None


def test_as_many_as_there_are_come_at_a_time() -> None:
    """Two full replicas and a loading one allow one more; after a claim for it, none."""
    full = [host("a", waiting(60)), host("b", waiting(60)), host("c", there("qwen", "loading")), host("d"), host("e")]
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(most=9))).hosts(*full)
    found = one_more(QWEN, rig.roster, rig.now)
    assert found is not None
    assert found.replica == 3
    rig.claim("qwen", found.host, found.replica)

    assert one_more(QWEN, rig.roster, rig.now) is None


def test_one_on_its_way_is_waited_for() -> None:
    """While a replica is loading or claimed, none is added."""
    assert more(host("a", waiting(60)), host("b", there("qwen", "loading")), host("c")) is None
    rig = RosterRig(catalog=SEVERAL).hosts(host("a", waiting(60)), host("b"), host("c")).claim("qwen", "b", 1)

    assert one_more(QWEN, rig.roster, rig.now) is None


def test_a_replica_that_sleeps_is_woken_before_one_is_added() -> None:
    """A sleeping replica is selected before a new one, even at the maximum number."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(most=2)))
    rig.hosts(host("a", waiting(60)), host("b", there("qwen", "asleep")), host("c"))
    found = one_more(QWEN, rig.roster, rig.now)

    assert found is not None
    assert (found.host, found.replica) == (B, 2)
    assert found.reason.endswith("it sleeps on b")


def test_there_are_never_more_than_the_configuration_says() -> None:
    """At the maximum number none is added, even if one host does not answer."""
    hosts = [host(name, waiting(60)) for name in "abc"]
    rig = RosterRig(catalog=SEVERAL).hosts(*hosts, host("here"))
    rig.roster.suspect(A, rig.now)

    assert one_more(QWEN, rig.roster, rig.now) is None


def test_a_model_that_is_not_ready_anywhere_has_no_replicas_to_add() -> None:
    """A model that is ready nowhere gets no further replica."""
    assert more(host("a")) is None


def test_one_more_takes_memory_from_what_is_unused() -> None:
    """A further replica may evict an idle model but not one in use."""
    used = there("llama", gib=20, in_flight=1)
    assert more(host("a", waiting(60)), host("b", used)) is None
    found = more(host("a", waiting(60)), host("b", used), host("c", there("llama", gib=20, idle_s=1, load_s=20)))

    assert found is not None
    assert found.host == "c"


def test_one_more_takes_no_memory_from_what_is_always_wanted() -> None:
    """A further replica does not evict a model with a minimum number of replicas."""
    kept = there("llama", gib=20, idle_s=3000)
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(most=3), llama=offer(20, least=1)))
    rig.hosts(host("a", waiting(60)), host("b", kept), host("c", kept, gib=None))

    assert one_more(QWEN, rig.roster, rig.now) is None


def test_loading_times_are_guessed_where_none_was_seen() -> None:
    """An unknown load time counts as longer than 15 s, so a wait of 15 s adds none."""
    unseen = there("qwen", waiting=1, oldest_wait_s=15)

    assert more(host("a", unseen), host("b")) is None


# Always some


def kept(*hosts: HostRecord, me: str = "here", least: int = 2) -> list[Load]:
    rig = RosterRig(me, catalog=fleet_catalog("llama", qwen=offer(least=least))).hosts(*hosts)
    return to_keep(rig.roster, rig.now)


def test_exactly_one_host_sees_to_it_that_there_are_enough() -> None:
    """Of three hosts, exactly one decides to load a missing replica."""
    hosts = [host(name) for name in "abc"]
    found = {me: kept(*hosts, me=me) for me in "abc"}

    assert sorted(map(len, found.values())) == [0, 0, 1]
    (load,) = next(loads for loads in found.values() if loads)
    assert (load.replica, load.reason.partition(";")[0]) == (0, "2 replicas are required, 0 exist")


def test_the_second_one_has_the_next_number() -> None:
    """If one of two replicas exists, the second one is loaded with number 1 on another host."""
    hosts = [host("a", there("qwen")), host("b"), host("c")]
    found = [load for me in "abc" for load in kept(*hosts, me=me)]

    assert [load.replica for load in found] == [1]
    assert found[0].host in "bc"


def test_enough_are_enough() -> None:
    """Ready, loading and claimed replicas all count towards the minimum."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(least=3)))
    rig.hosts(host("here", there("qwen")), host("a", there("qwen", "loading")), host("b")).claim("qwen", "b", 2)

    assert to_keep(rig.roster, rig.now) == []


def test_where_there_is_no_memory_for_it_nothing_is_evicted() -> None:
    """A required replica evicts a model only if that was idle for longer than its load time."""
    assert kept(host("here", there("llama", gib=20, idle_s=10, load_s=20))) == []
    assert len(kept(host("here", there("llama", gib=20, idle_s=30, load_s=20)))) == 1


def test_a_host_that_knows_nobody_sees_to_everything() -> None:
    """A host that has not published its record loads nothing for the minimum."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(least=1)))

    assert to_keep(rig.roster, rig.now) == []


# One fewer


def unused(seconds: float) -> Residence:
    return there("qwen", idle_s=seconds, load_s=10.0)


def spared(*hosts: HostRecord, least: int = 0) -> list[str]:
    """Who goes, of all who look."""
    gone: list[str] = []
    for me in (record.name for record in hosts):
        rig = RosterRig(me, catalog=fleet_catalog(qwen=offer(least=least, most=3))).hosts(*hosts)
        gone += [me for spare in to_spare(rig.roster, rig.now) if spare.model == QWEN]
    return gone


def test_of_unused_replicas_exactly_one_goes_at_a_time() -> None:
    """Of three idle replicas, exactly one is unloaded."""
    hosts = [host(name, unused(500)) for name in "abc"]

    assert len(spared(*hosts)) == 1


def test_the_unused_one_goes_and_not_the_used_one() -> None:
    """The replica that was idle longest is unloaded."""
    assert spared(host("a", unused(99)), host("b", unused(100)), host("c", unused(3))) == ["b"]


def test_the_last_one_and_those_always_wanted_stay() -> None:
    """The last replica and the minimum number of replicas stay."""
    assert spared(host("a", unused(500))) == []
    assert spared(host("a", unused(500)), host("b", unused(500)), least=2) == []


def test_only_what_serves_counts() -> None:
    """A loading or drained replica does not replace one that is unloaded."""
    assert spared(host("a", unused(500)), host("b", there("qwen", "loading"))) == []
    rig = RosterRig("a", catalog=fleet_catalog(qwen=offer(most=3))).hosts(
        host("a", unused(500)), host("b", unused(500))
    )
    rig.order("b", drained=True)

    assert to_spare(rig.roster, rig.now) == []


def test_a_pinned_replica_stays() -> None:
    """Idle replicas that are pinned are not unloaded."""
    pinned = there("qwen", idle_s=500, load_s=10.0, pinned=True)

    assert spared(host("a", pinned), host("b", pinned)) == []


def test_a_replica_that_was_just_sent_a_request_is_not_unused() -> None:
    """A replica to which a request was sent since its last record is not unloaded."""
    rig = RosterRig("a", catalog=fleet_catalog(qwen=offer(most=3))).hosts(host("a", unused(500)), host("b", unused(10)))
    assert to_spare(rig.roster, rig.now) == [
        Spare(QWEN, "unused for 500 s here, and ready on 2 hosts although 1 would be enough")
    ]
    rig.roster.sent(A, QWEN)

    assert to_spare(rig.roster, rig.now) == []


def test_a_host_that_has_not_described_itself_spares_nothing() -> None:
    """A host that has not published its record unloads nothing."""
    rig = RosterRig()

    assert to_spare(rig.roster, rig.now) == []


# More than there may be


def crowded_out(*hosts: HostRecord) -> list[str]:
    """Who has one too many, of all who look."""
    seen = {record.name: RosterRig(record.name).hosts(*hosts) for record in hosts}
    return [name for name, rig in seen.items() for _ in too_many(rig.roster, rig.now)]


def test_of_more_replicas_than_there_may_be_all_but_the_favourite_go() -> None:
    """Surplus replicas are unloaded, except the one that placement uses."""
    hosts = [host(name, there("qwen")) for name in "abc"]
    stays = ({"a", "b", "c"} - set(crowded_out(*hosts))).pop()
    rig = RosterRig("a").hosts(*hosts)

    assert len(crowded_out(*hosts)) == 2
    assert place(QWEN, ClientId("anybody"), rig.roster, rig.now) == Serve(HostName(stays), ANY)


def test_one_too_many_stays_while_it_is_used() -> None:
    """A surplus replica with a request in flight is not unloaded."""
    assert crowded_out(*(host(name, there("qwen", in_flight=1)) for name in "ab")) == []


def test_as_many_as_there_may_be_stay() -> None:
    """Replicas up to the maximum are never surplus, however long they are idle."""
    rig = RosterRig("a", catalog=SEVERAL).hosts(*(host(name, unused(500)) for name in "abc"))

    assert too_many(rig.roster, rig.now) == []


def test_one_too_many_that_is_pinned_stays() -> None:
    """A pinned surplus replica is not unloaded."""
    assert crowded_out(*(host(name, there("qwen", pinned=True)) for name in "ab")) == []
