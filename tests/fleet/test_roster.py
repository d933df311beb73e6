"""What a host knows about the others."""

from __future__ import annotations

import pytest
from tests.support.fleet import CATALOG, LLAMA, QWEN, RosterRig, fleet_catalog, host, offer, there

from hotseat.fleet.records import STOPS, Claim, HostOrder, encoded
from hotseat.fleet.roster import KNOWN_S, LONGEST_REASON, MOST_KNOWN, MOST_UNREACHABLE, NO_ORDER, Roster
from hotseat.fleet.store import LEASE_S, BegunAnew, Bucket, CaughtUp, Removed, Revision, Written
from hotseat.identifiers import HostName

A, B, THIS_HOST = map(HostName, ("a", "b", "here"))


def names(rig: RosterRig) -> list[str]:
    return sorted(member.name for member in rig.roster.hosts)


def models(roster: Roster) -> list[str]:
    return sorted(name for name, model in roster.names.present() if name == model)


def load(rig: RosterRig, name: HostName = A) -> int:
    member = rig.roster.hosts.get(name)
    assert member is not None
    return member.load(QWEN)


# Changes of the store


def test_a_host_is_there_until_its_lease_ends() -> None:
    """When a host's record is removed, the host and its models are gone."""
    rig = RosterRig().hosts(host("a", there("qwen")), host("b"))
    assert names(rig) == ["a", "b"]
    rig.remove(Bucket.HOSTS, "a")

    assert names(rig) == ["b"]
    assert rig.roster.hosts.holders(QWEN) == []


@pytest.mark.parametrize("address", ["http://a:90004", "a:8080", "http://", "http://10.0.0.300:80", "unix:a"])
def test_a_host_whose_address_cannot_be_reached_is_passed_over(address: str) -> None:
    """A host record with an invalid address is ignored and counted as malformed."""
    rig = RosterRig().hosts(host("a", there("qwen"), address=address), host("b"))

    assert names(rig) == ["b"]
    assert rig.roster.malformed == 1


def test_a_newer_record_replaces_all_that_was_said() -> None:
    """A model that a newer record does not mention is no longer on that host."""
    rig = RosterRig().hosts(host("a", there("qwen"))).hosts(host("a", there("llama")))

    assert rig.roster.hosts.holders(QWEN) == []
    assert [member.name for member in rig.roster.hosts.holders(LLAMA)] == ["a"]


def test_what_comes_late_changes_nothing() -> None:
    """Older writes and removals are ignored, and a late write does not restore a removed host."""
    rig = RosterRig().hosts(host("a", there("qwen"))).hosts(host("a"))
    first = rig.changes[-2]
    rig.apply(*first)
    rig.apply(Bucket.HOSTS, Removed("a", Revision(1)))
    assert rig.roster.hosts.holders(QWEN) == []
    assert names(rig) == ["a"]
    rig.remove(Bucket.HOSTS, "a").apply(*first)

    assert names(rig) == []


def test_after_an_interruption_nothing_is_forgotten_before_all_is_known() -> None:
    """Hosts that are missing from the new state have one lease to renew theirs: NATS may have been away."""
    rig = RosterRig().hosts(host("a"), host("b"))
    known = rig.changes[-1]
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(*known).apply(Bucket.HOSTS, CaughtUp())
    rig.after(LEASE_S - 1).settle()
    assert names(rig) == ["a", "b"]
    rig.after(1).settle()

    assert names(rig) == ["b"]


def test_a_host_renews_its_lease_after_an_interruption() -> None:
    """It is confirmed, and stays."""
    rig = RosterRig().hosts(host("a"))
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(Bucket.HOSTS, CaughtUp()).hosts(host("a"))
    rig.after(LEASE_S).settle()

    assert names(rig) == ["a"]


def test_a_host_that_was_leaving_is_missing_after_an_interruption() -> None:
    """It is gone at once, because it said so."""
    rig = RosterRig().hosts(host("a", is_leaving=True))
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(Bucket.HOSTS, CaughtUp())

    assert names(rig) == []


def test_a_lease_ends_long_after_an_interruption() -> None:
    """The host is gone at once: the interruption is not the reason."""
    rig = RosterRig().hosts(host("a"))
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(*rig.changes[-2]).apply(Bucket.HOSTS, CaughtUp())
    rig.after(LEASE_S).remove(Bucket.HOSTS, "a")

    assert names(rig) == []


def test_what_is_removed_while_all_comes_anew_is_gone() -> None:
    """A removal while the state is sent anew counts like a missing record."""
    rig = RosterRig().hosts(host("a"))
    known = rig.changes[-1]
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(*known).apply(Bucket.HOSTS, Removed("a", Revision(9)))
    rig.apply(Bucket.HOSTS, CaughtUp()).after(LEASE_S).settle()

    assert names(rig) == []


def test_revisions_count_anew_with_the_state() -> None:
    """After a new state, records with lower revisions are accepted."""
    rig = RosterRig().hosts(host("a"), host("a"), host("a", there("qwen")))
    rig.apply(Bucket.HOSTS, BegunAnew())
    rig.apply(Bucket.HOSTS, Written("a", encoded(host("a", there("llama"))), Revision(1)))
    rig.apply(Bucket.HOSTS, CaughtUp())

    assert [member.name for member in rig.roster.hosts.holders(LLAMA)] == ["a"]


def test_the_first_state_ends_like_any_other() -> None:
    """The first state may end without having been announced."""
    rig = RosterRig().hosts(host("a")).apply(Bucket.HOSTS, CaughtUp())

    assert names(rig) == ["a"]


def test_one_bucket_begins_anew_without_the_others() -> None:
    """A new state of one bucket does not affect the others."""
    rig = RosterRig().hosts(host("a")).apply(Bucket.ORDERS, BegunAnew()).apply(Bucket.ORDERS, CaughtUp())

    assert names(rig) == ["a"]
    assert rig.roster.names.resolve("qwen") == QWEN


@pytest.mark.parametrize("bucket", list(Bucket))
def test_what_cannot_be_read_is_counted_and_is_not_there(bucket: Bucket) -> None:
    """A malformed record is counted. A host or claim counts as absent; a catalog or order stays what it was."""
    rig = RosterRig().hosts(host("a")).order("a", cordoned=True).claim("qwen", "a")
    key = {Bucket.HOSTS: "a", Bucket.CLAIMS: "qwen.0", Bucket.CATALOGS: CATALOG, Bucket.ORDERS: "a"}[bucket]
    rig.write_bytes(bucket, key, b'{"what": "is this"}' if bucket is not Bucket.ORDERS else b"[").after(3)

    assert rig.roster.malformed == 1
    assert (rig.roster.hosts.get(A) is None) == (bucket is Bucket.HOSTS)
    assert (not rig.roster.claims.for_model(QWEN, rig.now)) == (bucket is Bucket.CLAIMS)
    assert (rig.roster.names.resolve("qwen") is None) == (bucket is Bucket.HOSTS)
    assert rig.roster.orders.of(A).cordoned


def test_a_record_under_another_name_is_not_believed() -> None:
    """A host record under another host's key is counted as malformed and ignored."""
    rig = RosterRig().write(Bucket.HOSTS, "b", host("a"))

    assert (names(rig), rig.roster.malformed) == ([], 1)


# This host


def test_the_store_does_not_change_this_hosts_own_record() -> None:
    """This host's own record is not changed or removed by the store."""
    rig = RosterRig().hosts(host("here", there("qwen")))
    rig.write(Bucket.HOSTS, "here", host("here")).remove(Bucket.HOSTS, "here")
    rig.apply(Bucket.HOSTS, BegunAnew()).apply(Bucket.HOSTS, CaughtUp())

    assert [member.name for member in rig.roster.hosts.holders(QWEN)] == ["here"]


def test_this_host_knows_its_own_catalog_without_the_store() -> None:
    """The store cannot change this host's catalog, and an old one that no other host has is forgotten."""
    roster = Roster(THIS_HOST)
    roster.here(host("here", catalog="old"), fleet_catalog("qwen"), 0.0)
    roster.apply(Bucket.CATALOGS, Written("old", b"nonsense", Revision(1)), 0.0)
    roster.apply(Bucket.CATALOGS, Removed("old", Revision(2)), 0.0)
    assert models(roster) == ["qwen"]
    roster.here(host("here", catalog="new"), fleet_catalog("llama"), 0.0)

    assert (models(roster), roster.names.resolve("qwen"), roster.malformed) == (["llama"], None, 0)


def test_an_old_catalog_of_this_host_that_others_have_stays() -> None:
    """An old catalog that another host still has is kept."""
    rig = RosterRig().hosts(host("here"), host("a"))
    rig.roster.here(host("here", catalog="new"), fleet_catalog("other"), 0.0)

    assert models(rig.roster) == ["gemma", "llama", "other", "qwen"]


# Names


def test_a_model_is_found_by_its_name_and_its_aliases() -> None:
    """A model's name takes precedence over another model's alias."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(aliases=["coder", "llama"]), llama=offer())).hosts(host("a"))

    assert [rig.roster.names.resolve(name) for name in ("qwen", "coder", "llama", "gpt")] == [QWEN, QWEN, LLAMA, None]


def test_models_that_no_living_host_has_are_not_listed() -> None:
    """A model is listed only while a host has a catalog that offers it, also if the store has lost the catalog."""
    rig = RosterRig(catalog=fleet_catalog("qwen"))
    assert models(rig.roster) == []
    rig.hosts(host("a")).remove(Bucket.CATALOGS, CATALOG)
    assert models(rig.roster) == ["qwen"]
    rig.remove(Bucket.HOSTS, "a")

    assert models(rig.roster) == []


def test_a_catalog_that_only_absent_hosts_had_does_not_count() -> None:
    """Its minimum of replicas, its maximum and its aliases end with the last host that has it."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(least=2, most=3, aliases=["chat"]))).hosts(host("a"))
    rig.remove(Bucket.HOSTS, "a")

    assert (rig.roster.catalog.kept, rig.roster.catalog.most(QWEN), rig.roster.names.resolve("chat")) == ({}, 1, None)


def test_the_names_of_a_host_that_restarts_are_expected_back() -> None:
    """They are known until the host returns with another catalog, or has been away for long."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(aliases=["chat"]))).hosts(host("a")).remove(Bucket.HOSTS, "a")
    assert dict(rig.roster.names.expected()) == {"qwen": QWEN, "chat": QWEN}
    rig.hosts(host("a", catalog="new"))
    assert dict(rig.roster.names.expected()) == {}
    rig.hosts(host("a")).remove(Bucket.HOSTS, "a").after(KNOWN_S).settle()

    assert dict(rig.roster.names.expected()) == {}


# Orders


def test_the_store_loses_an_order() -> None:
    """The order holds, and its host writes it again."""
    rig = RosterRig("a").hosts(host("a"), host("b")).order("a", drained=True).order("b", cordoned=True)
    rig.apply(Bucket.ORDERS, BegunAnew()).apply(Bucket.ORDERS, CaughtUp())

    assert rig.roster.orders.of(A).drained
    assert [name for name, _ in rig.roster.orders.lost()] == ["a"]


def test_the_store_loses_the_order_of_an_absent_host() -> None:
    """Exactly one of the others writes it again."""
    rigs = [RosterRig(me).hosts(host("a"), host("b")).order("gone", drained=True) for me in "ab"]
    for rig in rigs:
        rig.apply(Bucket.ORDERS, BegunAnew()).apply(Bucket.ORDERS, CaughtUp())

    assert [name for rig in rigs for name, _ in rig.roster.orders.lost()] == ["gone"]


def test_a_host_that_was_away_writes_an_order_again_that_was_revoked() -> None:
    """Whoever knows the revocation keeps to it and writes it; a host that did not know it believes it at once."""
    rig = RosterRig().hosts(host("here"), host("a")).order("a", drained=True, given_ms=7).order("a", given_ms=8)
    rig.order("a", drained=True, given_ms=7)
    assert not rig.roster.orders.of(A).is_given
    assert [*rig.roster.orders.lost()] == [("a", HostOrder(given_ms=8))]
    away = Roster(A, HostOrder(drained=True, given_ms=7))
    away.apply(Bucket.ORDERS, Written("a", encoded(HostOrder(given_ms=8)), Revision(1)), 0.0)
    assert not away.orders.of(A).is_given
    rig.order("a", given_ms=8)

    assert [*rig.roster.orders.lost()] == []


def test_an_order_without_a_time_counts_as_it_arrives() -> None:
    """A host of an earlier version wrote it."""
    rig = RosterRig().hosts(host("a")).order("a", drained=True, given_ms=7).order("a")

    assert not rig.roster.orders.of(A).is_given


def test_revocations_of_more_hosts_than_are_remembered() -> None:
    """The oldest is forgotten, and no order that still holds is."""
    rig = RosterRig().order("first", drained=True, given_ms=1)
    for n in range(MOST_KNOWN):
        rig.order(f"gpu{n}", given_ms=7)

    assert rig.roster.orders.of(HostName("first")).drained
    assert rig.roster.orders.of(HostName("gpu0")) == NO_ORDER
    assert rig.roster.orders.of(HostName("gpu1")).given_ms == 7


# Load between two records


def test_load_is_what_the_record_said_and_what_was_sent_since() -> None:
    """The load is what the record says, plus requests sent since, minus those that came back."""
    rig = RosterRig().hosts(host("a", there("qwen", in_flight=2, waiting=1)))
    rig.roster.sent(A, QWEN)
    rig.roster.sent(A, QWEN)
    assert load(rig) == 5
    rig.roster.came_back(A, QWEN)

    assert load(rig) == 4


def test_an_answer_tells_the_load() -> None:
    """A load that the host reported in a response replaces the computed one."""
    rig = RosterRig().hosts(host("a", there("qwen")))
    rig.roster.sent(A, QWEN)
    rig.roster.note_load(A, QWEN, 17)
    assert load(rig) == 17
    rig.roster.came_back(A, QWEN)
    rig.roster.note_load(A, QWEN, 12)

    assert load(rig) == 12


def test_a_newer_record_knows_better() -> None:
    """A newer record includes the requests that were sent before it."""
    rig = RosterRig().hosts(host("a", there("qwen")))
    rig.roster.sent(A, QWEN)
    rig.hosts(host("a", there("qwen", in_flight=1)))
    assert load(rig) == 1
    rig.roster.came_back(A, QWEN)

    assert load(rig) == 0


def test_requests_to_an_earlier_life_say_nothing_about_this_one() -> None:
    """Requests to a host before its restart do not change its load after it."""
    rig = RosterRig().hosts(host("a", there("qwen")))
    rig.roster.sent(A, QWEN)
    rig.hosts(host("a", there("qwen", in_flight=3), boot="2"))
    rig.roster.came_back(A, QWEN)

    assert load(rig) == 3


def test_a_load_is_never_negative() -> None:
    """The load stays at 0 if a request comes back that the record did not include."""
    rig = RosterRig().hosts(host("a", there("qwen")))
    rig.roster.sent(A, QWEN)
    rig.hosts(host("a", there("qwen")))
    rig.roster.came_back(A, QWEN)

    assert load(rig) == 0


def test_a_model_that_failed_unseen_is_known_to_have_failed() -> None:
    """A failure is remembered even if the host's record does not have the model; unknown hosts are ignored."""
    rig = RosterRig().hosts(host("a"))
    rig.roster.failed(A, QWEN)
    rig.roster.failed(HostName("gone"), QWEN)
    member = rig.roster.hosts.get(A)

    assert member is not None
    assert member.backing_off == [QWEN]
    assert list(rig.roster.hosts.residences(QWEN)) == []


def test_what_becomes_of_requests_to_a_host_that_is_gone_does_not_matter() -> None:
    """Reports about requests to an unknown host are ignored."""
    rig = RosterRig()
    rig.roster.sent(A, QWEN)
    rig.roster.note_load(A, QWEN, 3)
    rig.roster.came_back(A, QWEN)
    rig.roster.suspect(A, rig.now)

    assert names(rig) == []


# Suspicion


def shunned_s(rig: RosterRig) -> float:
    member = rig.roster.hosts.get(A)
    assert member is not None
    return max(0.0, member.shunned_until - rig.now)


def test_who_refuses_again_is_left_out_longer() -> None:
    """Each further refusal doubles the time for which a host is left out, up to the time of a lease."""
    rig = RosterRig().hosts(host("a"))
    waits = []
    for _ in range(8):
        rig.roster.suspect(A, rig.now)
        waits.append(shunned_s(rig))

    assert waits == [2, 4, 8, 10, 10, 10, 10, 10]


def test_a_newer_record_ends_the_first_suspicion() -> None:
    """A newer record ends the first suspicion of a host, but not a second one."""
    rig = RosterRig().hosts(host("a"))
    rig.roster.suspect(A, rig.now)
    rig.hosts(host("a"))
    assert shunned_s(rig) == 0
    rig.roster.suspect(A, rig.now)
    rig.hosts(host("a"))

    assert shunned_s(rig) == 4


def test_a_new_life_and_an_answer_clear_of_all_suspicion() -> None:
    """A restart or a response resets the suspicion and its doubling."""
    rig = RosterRig().hosts(host("a"))
    for clearing in (lambda: rig.hosts(host("a", boot="2")), lambda: rig.roster.note_load(A, QWEN, 0)):
        rig.roster.suspect(A, rig.now)
        rig.roster.suspect(A, rig.now)
        clearing()
        assert shunned_s(rig) == 0
        rig.roster.suspect(A, rig.now)

        assert shunned_s(rig) == 2


def test_this_host_does_not_suspect_itself() -> None:
    """This host is never left out."""
    rig = RosterRig().hosts(host("here"))
    rig.roster.suspect(THIS_HOST, rig.now)
    member = rig.roster.hosts.get(THIS_HOST)

    assert member is not None
    assert not member.is_shunned(rig.now)


# Claims


def test_a_claim_that_is_taken_back_counts_until_its_model_is_seen() -> None:
    """A removed claim still counts for two seconds, because the host's record may arrive later."""
    rig = RosterRig().hosts(host("a")).claim("qwen", "a").remove(Bucket.CLAIMS, "qwen.0")
    assert [held.claim.host for held in rig.roster.claims.for_model(QWEN, rig.now)] == ["a"]
    assert len(rig.roster.claims.on_host(A, rig.now)) == 1
    rig.after(2)

    assert rig.roster.claims.for_model(QWEN, rig.now) == rig.roster.claims.on_host(A, rig.now) == []


def test_a_claim_whose_model_is_seen_ends_at_once() -> None:
    """A removed claim does not count if the host's record shows the model."""
    rig = RosterRig().hosts(host("a", there("qwen", "loading"))).claim("qwen", "a").remove(Bucket.CLAIMS, "qwen.0")

    assert rig.roster.claims.for_model(QWEN, rig.now) == []


def test_a_claim_can_be_replaced() -> None:
    """A newer claim replaces the older one, for the model and for both hosts."""
    rig = RosterRig().claim("qwen", "a").claim("qwen", "b")

    assert [held.claim.host for held in rig.roster.claims.for_model(QWEN, rig.now)] == ["b"]
    assert rig.roster.claims.on_host(A, rig.now) == []
    assert [held.revision for held in rig.roster.claims.on_host(B, rig.now)] == [2]


def test_own_claims_are_fulfilled_when_the_host_shows_the_model() -> None:
    """Only claims made by this host are reported as fulfilled, once the host's record shows the model."""
    rig = RosterRig().hosts(host("a"), host("b", there("llama")))
    rig.claim("qwen", "a", by="here").claim("llama", "b", by="elsewhere")
    assert rig.roster.claims.fulfilled(rig.roster.me, rig.now) == []
    rig.hosts(host("a", there("qwen", "loading")))

    assert [held.key for held in rig.roster.claims.fulfilled(rig.roster.me, rig.now)] == ["qwen.0"]


def test_the_right_to_stop_a_replica_is_not_withdrawn() -> None:
    """The host that stays has the model all the time; the claim ends with the move that made it."""
    rig = RosterRig().hosts(host("a", there("qwen")), host("b", there("qwen")))
    rig.claim("qwen", "a", STOPS, by="here")

    assert rig.roster.claims.fulfilled(rig.roster.me, rig.now) == []


@pytest.mark.parametrize("phase", ["draining", "unloading"])
def test_a_claim_is_not_fulfilled_by_what_is_on_its_way_out(phase: str) -> None:
    """A model that is draining or unloading does not fulfil a claim."""
    rig = RosterRig().hosts(host("a", there("qwen", phase))).claim("qwen", "a", by="here")

    assert rig.roster.claims.fulfilled(rig.roster.me, rig.now) == []


def test_a_claim_that_lapsed_may_still_be_removed() -> None:
    """The removal of a lapsed claim is ignored."""
    rig = RosterRig().claim("qwen", "a").after(10)
    assert rig.roster.claims.for_model(QWEN, rig.now) == []
    rig.remove(Bucket.CLAIMS, "qwen.0")

    assert rig.roster.claims.for_model(QWEN, rig.now) == []
    assert not rig.roster.hosts.shows(Claim(QWEN, A, B, ""))


def test_a_host_that_cannot_reach_many_others() -> None:
    """It says so of a few, with short reasons: hosts that only refuse a request, or answer again, are none of them."""
    many = [HostName(f"h{n}") for n in range(MOST_UNREACHABLE + 4)]
    rig = RosterRig().hosts(*map(host, many))
    rig.roster.suspect(many[0], rig.now)
    for name in many[1:]:
        rig.roster.suspect(name, rig.now, "no connection" * 100)
    rig.roster.answered(many[1])
    unreachable = rig.roster.unreachable(rig.now)

    assert [*unreachable] == many[2 : 2 + MOST_UNREACHABLE]
    assert {len(reason) for reason in unreachable.values()} == {LONGEST_REASON}
    assert rig.roster.unreachable(rig.now + 60) == {}
