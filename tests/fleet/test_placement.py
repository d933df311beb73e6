"""Which host serves a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fleet import ALICE, GEMMA, GIB, GPU, LLAMA, QWEN, RosterRig, fleet_catalog, host, offer, there

from hotseat.fleet.placement import GLANCED_AT, Decision, Load, Means, Nowhere, Obstacle, Serve, load, place
from hotseat.fleet.records import DeviceBudget, Offer, Residence
from hotseat.fleet.roster import KNOWN_S
from hotseat.fleet.store import Bucket
from hotseat.identifiers import ClientId, HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = ClientId("")
SEVERAL = fleet_catalog(qwen=offer(most=4))


def placed(rig: RosterRig, model: ModelName = QWEN, client: ClientId = ALICE) -> Decision:
    return place(model, client, rig.roster, rig.now)


def where(rig: RosterRig, model: ModelName = QWEN, client: ClientId = ALICE) -> tuple[type, str]:
    decision = placed(rig, model, client)
    assert not isinstance(decision, Nowhere), decision.reason
    return type(decision), decision.host


# Ready


def test_a_ready_model_is_served_where_it_is() -> None:
    """A request goes to the host where the model is ready, even if it is full and another host is empty."""
    rig = RosterRig().hosts(host("here"), host("a", there("qwen", in_flight=3, waiting=9, slots=4)))

    assert where(rig) == (Serve, "a")


def test_of_full_replicas_the_one_with_the_least_load_per_slot_serves() -> None:
    """Eight requests on eight slots are less load than five on four."""
    rig = RosterRig(catalog=SEVERAL).hosts(
        host("a", there("qwen", in_flight=4, waiting=1, slots=4)), host("b", there("qwen", in_flight=8, slots=8))
    )

    assert where(rig) == (Serve, "b")


def test_of_equally_full_replicas_the_one_here_serves() -> None:
    """Of equally full replicas, the one on this host is selected."""
    full = there("qwen", in_flight=4, slots=4)
    rig = RosterRig(catalog=SEVERAL).hosts(host("a", full), host("here", full), host("z", full))

    assert where(rig) == (Serve, "here")


def test_a_client_comes_back_to_the_same_replica_while_it_has_a_free_slot() -> None:
    """Clients spread over all replicas, and each keeps its replica when loads differ a little."""
    replicas = [host(name, there("qwen", slots=4)) for name in ("a", "b", "c", "here")]
    rig = RosterRig(catalog=SEVERAL).hosts(*replicas)
    clients = [ClientId(f"client {n}") for n in range(200)]
    before = [where(rig, client=client)[1] for client in clients]
    rig.hosts(*(host(name, there("qwen", slots=4, in_flight=n)) for n, name in enumerate(("a", "b", "c", "here"))))

    assert [where(rig, client=client)[1] for client in clients] == before
    assert all(30 < before.count(name) < 70 for name in ("a", "b", "c", "here"))


def test_nobody_in_particular_goes_where_least_is_going_on() -> None:
    """A request without a client identity goes to the replica with the least load."""
    rig = RosterRig(catalog=SEVERAL).hosts(
        host("a", there("qwen", slots=4, in_flight=1)), host("b", there("qwen", slots=4))
    )

    assert where(rig, client=NOBODY) == (Serve, "b")


def test_a_client_leaves_its_replica_when_that_is_full() -> None:
    """A client whose replica is full is sent to another one."""
    free, full = there("qwen", slots=2), there("qwen", slots=2, in_flight=2)
    rig = RosterRig(catalog=SEVERAL).hosts(host("a", free), host("b", free))
    mine = where(rig)[1]
    rig.hosts(host(mine, full))

    assert where(rig)[1] != mine


def test_what_was_sent_since_the_last_record_counts() -> None:
    """Two requests sent to one replica send the third to the other."""
    rig = RosterRig(catalog=SEVERAL).hosts(host("a", there("qwen", slots=2)), host("b", there("qwen", slots=2)))
    mine = HostName(where(rig)[1])
    rig.roster.sent(mine, QWEN)
    assert where(rig)[1] == mine
    rig.roster.sent(mine, QWEN)

    assert where(rig)[1] != mine


def test_of_more_replicas_than_there_may_be_all_hosts_use_the_same_ones() -> None:
    """With surplus replicas, all hosts send all clients to the same one, so that the others become idle."""
    hosts = [host(name, there("qwen", in_flight=n)) for n, name in enumerate("abc")]
    rig = [RosterRig(name).hosts(*hosts) for name in "abc"]

    assert len({where(each, client=ClientId(str(n))) for n in range(9) for each in rig}) == 1


# On its way


@pytest.mark.parametrize("phase", ["loading", "asleep", "cold"])
def test_a_model_on_its_way_is_waited_for(phase: str) -> None:
    """A model that is loading, asleep or waiting for memory on a host is not loaded on another one."""
    rig = RosterRig().hosts(host("here"), host("a", there("qwen", phase)))

    assert where(rig) == (Serve, "a")
    assert phase in placed(rig).reason


def test_what_loads_is_nearer_than_what_sleeps() -> None:
    """A loading replica is preferred to a sleeping one."""
    rig = RosterRig().hosts(host("a", there("qwen", "asleep")), host("b", there("qwen", "loading")))

    assert where(rig) == (Serve, "b")


@pytest.mark.parametrize("phase", ["draining", "unloading", "of a later version"])
def test_a_model_on_its_way_out_serves_nobody(phase: str) -> None:
    """A model that is leaving a host is loaded on another host."""
    rig = RosterRig().hosts(host("a", there("qwen", phase)), host("here"))

    assert where(rig) == (Load, "here")


def test_a_host_that_refused_what_it_was_chosen_for() -> None:
    """It is not tried again and again until the claim ends: another host is chosen."""
    rig = RosterRig().hosts(host("here"), host("a"), host("b")).claim("qwen", "a").order("a", cordoned=True)
    assert where(rig) == (Serve, "a")
    rig.roster.failed(HostName("a"), QWEN)

    assert where(rig) != (Serve, "a")


def test_a_claim_is_as_good_as_a_load() -> None:
    """A request goes to the host that a claim names."""
    rig = RosterRig().hosts(host("here"), host("a")).claim("qwen", "a")

    assert where(rig) == (Serve, "a")
    assert "chosen" in placed(rig).reason


@pytest.mark.parametrize("phase", ["draining", "unloading", "backoff"])
def test_a_host_may_be_chosen_to_load_what_is_just_leaving_it(phase: str) -> None:
    """Requests still go there: that host brings the model back, or reports why it cannot."""
    rig = RosterRig().hosts(host("a", there("qwen", phase))).claim("qwen", "a")

    assert where(rig) == (Serve, "a")
    assert "chosen" in placed(rig).reason


def test_a_claim_for_a_host_that_is_gone_holds_nobody_up() -> None:
    """A claim for an unknown host is ignored, and the next replica number is used."""
    rig = RosterRig().hosts(host("here")).claim("qwen", "a")

    assert placed(rig) == Load(QWEN, HostName("here"), 1, "here has enough free memory")


def test_a_claim_that_nobody_acted_on_lapses() -> None:
    """A claim counts for ten seconds, even if its removal is not reported."""
    rig = RosterRig().hosts(host("here"), host("a")).claim("qwen", "a").after(10)

    assert placed(rig) == Load(QWEN, HostName("here"), 0, "here has enough free memory")


def test_hosts_whose_clocks_differ_decide_the_same() -> None:
    """Hosts exchange no instants: each counts on its own clock from when it received something."""
    clocks = {"a": 100.0, "b": 100.0 + 86_400, "c": 0.5}
    unused_s = {"a": 5.0, "b": 50.0, "c": 500.0}
    hosts = [host(name, there("llama", idle_s=idle_s, load_s=9.0), gib=8) for name, idle_s in unused_s.items()]
    rig = [RosterRig(me, now).hosts(*hosts).claim("gemma", "b").after(3.0) for me, now in clocks.items()]

    assert {where(each) for each in rig} == {(Load, "c")}
    assert {where(each, GEMMA) for each in rig} == {(Serve, "b")}
    assert {where(each.after(7.0), GEMMA) for each in rig} == {(Load, "c")}


def test_where_a_model_failed_it_is_sought_last_until_its_host_says_more() -> None:
    """After a failure the model is loaded elsewhere, until the host publishes a newer record."""
    rig = RosterRig().hosts(host("a", there("qwen")), host("b"))
    rig.roster.failed(HostName("a"), QWEN)
    assert where(rig) == (Load, "b")
    rig.hosts(host("a", there("qwen")))

    assert where(rig) == (Serve, "a")


# Free memory


def test_free_memory_here_comes_first() -> None:
    """Of equally idle hosts with free memory, this host loads the model."""
    rig = RosterRig().hosts(host("a"), host("here"), host("z"))

    assert where(rig) == (Load, "here")


def test_elsewhere_models_have_their_favourite_hosts() -> None:
    """All hosts select the same empty host for a model, and models spread over the hosts."""
    models = [ModelName(f"m{n}") for n in range(100)]
    asked = [RosterRig(me, catalog=fleet_catalog(*models)).hosts(host("a"), host("b"), host("c")) for me in ("x", "y")]
    chosen = [[where(rig, model)[1] for model in models] for rig in asked]

    assert chosen[0] == chosen[1]
    assert all(chosen[0].count(name) > 15 for name in "abc")


def test_a_host_that_loads_already_is_no_first_choice() -> None:
    """A host that is loading another model is not selected if another host is free."""
    rig = RosterRig().hosts(host("here", there("llama", "loading")), host("a", there("llama", in_flight=3)))

    assert where(rig) == (Load, "a")


def test_the_calmer_host_loads() -> None:
    """Of two hosts with free memory, the one with fewer requests in flight loads the model."""
    rig = RosterRig().hosts(host("here", there("llama", in_flight=3)), host("a", there("llama")))

    assert where(rig) == (Load, "a")


def test_a_host_where_it_failed_is_tried_last() -> None:
    """A host where the model failed loads it only if no other host can."""
    rig = RosterRig().hosts(host("here", there("qwen", "backoff", gib=0)))
    assert where(rig) == (Load, "here")
    rig.hosts(host("a", there("llama", gib=20, in_flight=3)))

    assert where(rig) == (Load, "a")


def test_claimed_memory_is_not_free() -> None:
    """Memory that a claim needs does not count as free."""
    rig = RosterRig().hosts(host("here", gib=15), host("a", gib=15)).claim("llama", "here")

    assert where(rig) == (Load, "a")


def test_memory_that_a_waiting_model_needs_is_not_free() -> None:
    """Memory that a model waits for on its host does not count as free."""
    rig = RosterRig().hosts(host("here", there("llama", "cold"), gib=15), host("a", gib=15))

    assert where(rig) == (Load, "a")


def test_a_claim_is_not_counted_twice_once_its_model_is_seen() -> None:
    """A claim takes no memory once the host's record shows the model."""
    rig = RosterRig().hosts(host("here", there("llama", "loading"), gib=16)).claim("llama", "here")

    assert placed(rig).reason == "here has enough free memory"


def test_a_model_of_unknown_size_needs_a_whole_device() -> None:
    """A model of unknown size is loaded on a host with an empty device."""
    rig = RosterRig(catalog=fleet_catalog("llama", qwen=Offer())).hosts(host("here", there("llama", gib=1)), host("a"))

    assert where(rig) == (Load, "a")


def test_a_host_without_budgets_has_memory_while_nothing_runs() -> None:
    """A host without budgets has free memory only while no model runs there."""
    rig = RosterRig().hosts(host("here", there("llama"), gib=None), host("a", gib=None))

    assert where(rig) == (Load, "a")


def test_a_model_that_sleeps_leaves_the_turn_to_others() -> None:
    """On a host without budgets, a sleeping model does not block another one."""
    rig = RosterRig().hosts(host("here", there("llama", "asleep"), gib=None))

    assert placed(rig).reason == "here has enough free memory"


# Memory that must be freed


def test_memory_is_freed_where_it_costs_least() -> None:
    """Without free memory, the host is selected whose victim is idle longest and loads fastest."""
    rig = RosterRig().hosts(
        host("here", there("llama", gib=20, idle_s=100, load_s=50)),
        host("a", there("llama", gib=20, idle_s=100, load_s=10)),
        host("b", there("llama", gib=20, idle_s=10, load_s=10)),
    )

    assert placed(rig) == Load(
        QWEN,
        HostName("a"),
        0,
        "no host has enough free memory, and the cost is lowest on a, where llama (idle for 100 s) can be unloaded",
    )


def test_a_model_in_use_costs_more_than_any_that_is_not() -> None:
    """Two idle models with long load times are evicted rather than one in use."""
    rig = RosterRig().hosts(
        host("here", there("llama", gib=20, in_flight=1, load_s=1)),
        host("a", there("llama", gib=10, load_s=600), there("gemma", gib=10, load_s=600)),
    )

    assert where(rig) == (Load, "a")


def test_where_all_are_in_use_the_fewest_users_are_disturbed() -> None:
    """If all are in use, the host with the fewest requests is selected, including loads reported since."""
    rig = RosterRig().hosts(
        host("here", there("llama", gib=20, in_flight=2)), host("a", there("llama", gib=20, in_flight=3))
    )
    assert where(rig) == (Load, "here")
    assert "in use" in placed(rig).reason
    for _ in range(2):
        rig.roster.sent(HostName("a"), LLAMA)
        rig.roster.came_back(HostName("a"), LLAMA)
        rig.roster.note_load(HostName("a"), LLAMA, 1)

    assert where(rig) == (Load, "a")


def test_a_model_that_loads_is_not_sent_away_for_another() -> None:
    """A loading model is not evicted if an idle one can be."""
    rig = RosterRig().hosts(
        host("here", there("llama", "loading", gib=20)), host("a", there("llama", gib=20, load_s=600))
    )

    assert where(rig) == (Load, "a")


def test_a_model_that_sleeps_is_not_in_use() -> None:
    """A model that has been asleep for long is cheaper to evict than one used recently."""
    rig = RosterRig().hosts(
        host("here", there("llama", gib=20, idle_s=10)), host("a", there("llama", "asleep", gib=20, idle_s=900))
    )

    assert where(rig) == (Load, "a")


def test_what_leaves_already_costs_nothing_more() -> None:
    """A model that is already stopping costs nothing to evict."""
    rig = RosterRig().hosts(
        host("here", there("llama", gib=20, idle_s=9000)), host("a", there("llama", "unloading", gib=20))
    )

    assert where(rig) == (Load, "a")


def test_of_equal_prices_the_one_here_is_paid() -> None:
    """At equal cost, this host is selected."""
    full = there("llama", gib=20, idle_s=50, load_s=10)
    rig = RosterRig().hosts(*(host(name, full) for name in ("a", "b", "here", "y", "z")))

    assert where(rig) == (Load, "here")


def test_a_host_without_budgets_costs_all_that_runs_there() -> None:
    """On a host without budgets, all running models must be evicted, so their costs add up."""
    rig = RosterRig().hosts(
        host("here", there("llama", idle_s=10, load_s=10), there("gemma", idle_s=10, load_s=10), gib=None),
        host("a", there("llama", idle_s=10, load_s=15), gib=None),
    )

    assert where(rig) == (Load, "a")


def test_a_host_without_budgets_that_somebody_waits_for_is_dear() -> None:
    """A host without budgets for which a claim exists is not selected."""
    rig = RosterRig().hosts(host("here", gib=None), host("a", there("llama", load_s=600), gib=None))
    rig.claim("gemma", "here")

    assert where(rig) == (Load, "a")


def test_where_others_come_first_it_waits_for_them() -> None:
    """If all memory is promised to others, the model is still placed and waits for them."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(20), llama=offer(20), gemma=offer(20)))
    rig.hosts(host("a", there("gemma", gib=20))).claim("llama", "a")
    assert where(rig) == (Load, "a")
    rig.hosts(host("a"))

    assert "others that were loaded earlier" in placed(rig).reason


def test_of_many_hosts_the_cheapest_is_found() -> None:
    """Among thirty hosts the cheapest is selected; hosts with pinned models are skipped."""
    many = [host(f"h{n:02}", there("llama", gib=20, idle_s=100 - n, load_s=10)) for n in range(30)]
    pinned = host("p", there("llama", gib=20, pinned=True))
    alone = [host("q", there("llama", load_s=600), gib=None), host("r", there("llama", pinned=True), gib=None)]
    rig = RosterRig(catalog=fleet_catalog("llama", "gemma", qwen=offer(20))).hosts(pinned, *alone, *many)
    assert where(rig) == (Load, "h00")
    rig.claim("gemma", "h00")

    assert where(rig) == (Load, "h01")


def test_where_the_first_hundred_cannot_the_next_are_asked() -> None:
    """A host with free memory is found whatever its position, also beyond the first hundred."""
    pinned = [host(f"h{n:03}", there("llama", gib=20, pinned=True)) for n in range(GLANCED_AT + 20)]
    rig = RosterRig().hosts(*pinned)
    assert isinstance(placed(rig), Nowhere)
    for record in pinned:
        rig.hosts(host(record.name))
        assert where(rig) == (Load, record.name)
        rig.hosts(record)


def test_what_seems_cheap_is_reckoned_anew_after_a_while() -> None:
    """After six seconds, costs are computed again and models in use are avoided."""
    many = [host(f"h{n:02}", there("llama", gib=20, idle_s=100 - n, load_s=10)) for n in range(30)]
    rig = RosterRig(catalog=fleet_catalog("llama", qwen=offer(20))).hosts(*many)
    assert where(rig) == (Load, "h00")
    rig.after(6)
    for n in range(29):
        rig.roster.sent(HostName(f"h{n:02}"), LLAMA)

    assert where(rig) == (Load, "h29")


# Nowhere


def test_pinned_models_stay() -> None:
    """Pinned models are not evicted, with or without budgets, and the error says so."""
    pinned = there("llama", gib=20, pinned=True)
    rig = RosterRig().hosts(host("here", pinned), host("a", pinned, gib=None))

    assert placed(rig) == Nowhere(
        "qwen cannot be placed: a, here are full of models that cannot be unloaded. To fix this, unpin a model."
    )


def test_a_host_that_is_too_small_is_not_asked() -> None:
    """A host with too little memory, or without the device, is not selected."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(40), llama=Offer(memory={"gpu9": GIB})))  # type: ignore[dict-item]
    rig.hosts(host("here"))

    assert "here is too small for it (it needs 40 GiB on gpu0)" in placed(rig).reason
    assert isinstance(placed(rig, LLAMA), Nowhere)


GUESSED = fleet_catalog("llama", qwen=offer(40, is_estimate=True))


def test_an_estimate_that_fits_no_host_is_tried_alone() -> None:
    """On a calm host where it has not failed lately; that host refuses it once a start alone has failed."""
    busy, failed = host("a", there("llama", in_flight=3)), host("c", there("qwen", "backoff", gib=0))
    rig = RosterRig(me="b", catalog=GUESSED).hosts(busy, host("b"), failed)
    assert placed(rig) == Load(QWEN, HostName("b"), 0, "its estimate fits no host, so it is tried alone on b")
    rig.hosts(host("b", there("qwen", "backoff", gib=0)), host("a", there("qwen", "backoff", gib=0)))

    assert where(rig) == (Load, "b")


def test_an_estimate_goes_where_it_fits() -> None:
    """Even if that host is busy and another one is empty."""
    rig = RosterRig(catalog=GUESSED).hosts(host("here"), host("a", there("llama", gib=30, in_flight=2), gib=48))

    assert where(rig) == (Load, "a")


def test_an_estimate_beside_pinned_models() -> None:
    """It is tried with what they leave; without any figure, it is not."""
    catalog = fleet_catalog(qwen=offer(20, is_estimate=True), gemma=Offer(is_estimate=True))
    rig = RosterRig(catalog=catalog).hosts(host("here", there("llama", gib=8, pinned=True)))

    assert where(rig) == (Load, "here")
    assert isinstance(placed(rig, GEMMA), Nowhere)


def test_a_load_that_nobody_waits_for_is_not_tried_alone() -> None:
    """Nor is a second one where the model runs already."""
    rig = RosterRig(catalog=GUESSED).hosts(host("here"))
    unasked = load(QWEN, rig.roster, rig.now, means=Means(dearest=1e9))
    rig.hosts(host("here", there("qwen", gib=24)))

    assert isinstance(unasked, Nowhere)
    assert isinstance(load(QWEN, rig.roster, rig.now), Nowhere)


def test_labels_are_constraints() -> None:
    """A host without the required labels neither loads nor serves the model."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(labels={"gpu": "a100", "site": "eu"})))
    rig.hosts(host("here", there("qwen"), labels={"gpu": "a100"}))
    assert "here is missing the required labels (it needs gpu=a100, site=eu)" in placed(rig).reason
    rig.hosts(host("a", labels={"gpu": "a100", "site": "eu", "rack": "7"}))

    assert where(rig) == (Load, "a")


def test_a_cordoned_host_serves_what_it_has_and_loads_nothing() -> None:
    """A cordoned host serves its models but loads no others."""
    rig = RosterRig().hosts(host("a", there("qwen"))).order("a", cordoned=True)

    assert where(rig) == (Serve, "a")
    assert "a is cordoned" in placed(rig, LLAMA).reason


def test_a_drained_host_serves_until_another_one_does() -> None:
    """Requests go to it while the model is loading elsewhere, and to the other host as soon as it is ready there."""
    rig = RosterRig().hosts(host("a", there("qwen"), released=[]), host("b"))
    rig.order("a", cordoned=True, drained=True)
    at_first = where(rig)
    rig.hosts(host("b", there("qwen", "loading")))
    meanwhile = where(rig)
    rig.hosts(host("b", there("qwen")))

    assert (at_first, meanwhile, where(rig)) == ((Serve, "a"), (Serve, "a"), (Serve, "b"))


@pytest.mark.parametrize(
    ("residence", "released"), [(there("qwen"), ["qwen"]), (there("qwen", "asleep"), []), (there("llama"), [])]
)
def test_a_drained_host_that_has_released_the_model_gets_nothing(residence: Residence, released: list[str]) -> None:
    """Neither does one where the model is not ready."""
    rig = RosterRig().hosts(host("a", residence, released=released), host("b")).order("a", drained=True)

    assert where(rig) == (Load, "b")


def test_a_drained_host_that_refuses_connections_gets_nothing() -> None:
    """A host that does not answer is not used, drained or not."""
    rig = RosterRig().hosts(host("a", there("qwen"), released=[]), host("b")).order("a", drained=True)
    rig.roster.suspect(HostName("a"), rig.now)

    assert where(rig) == (Load, "b")


def test_an_order_that_was_withdrawn_has_no_effect() -> None:
    """After its order is withdrawn, a host loads models again."""
    rig = RosterRig().hosts(host("a")).order("a", cordoned=True).order("a")

    assert where(rig) == (Load, "a")


def test_a_leaving_host_gets_nothing() -> None:
    """A host whose record says that it leaves gets no requests."""
    rig = RosterRig().hosts(host("a", there("qwen"), is_leaving=True), host("here"))

    assert where(rig) == (Load, "here")


def test_a_host_that_refused_a_connection_is_left_out() -> None:
    """A host that refused a connection is left out for two seconds; the model is loaded elsewhere."""
    rig = RosterRig().hosts(host("a", there("qwen")), host("here"))
    rig.roster.suspect(HostName("a"), rig.now)
    assert where(rig) == (Load, "here")
    rig.after(2)

    assert where(rig) == (Serve, "a")


def test_a_model_that_nobody_has_is_nowhere() -> None:
    """If no host has the model, the error says what to do."""
    rig = RosterRig(catalog=fleet_catalog("llama")).hosts(host("here"))

    assert "Start a host whose configuration has it" in placed(rig).reason


def test_a_host_whose_catalog_has_not_arrived_yet() -> None:
    """It serves the model that it has, but is not chosen to load another one, whose labels are unknown."""
    rig = RosterRig().hosts(host("a", there("qwen"), catalog="unknown"))

    assert where(rig) == (Serve, "a")
    assert isinstance(placed(rig, LLAMA), Nowhere)


def test_many_hosts_are_not_all_named() -> None:
    """The error names at most three hosts for each kind of obstacle."""
    rig = RosterRig().hosts(*(host(f"h{n}") for n in range(9)), host("z", is_leaving=True))
    for n in range(9):
        rig.order(f"h{n}", cordoned=True)

    assert placed(rig, GEMMA) == Nowhere(
        "gemma cannot be placed: z is shutting down; h0, h1, h2 and 6 more are cordoned."
        " To fix this, start another host or uncordon it.",
        may_pass=True,
    )


def test_a_host_that_lacks_the_file_is_not_chosen() -> None:
    """The model is loaded where its file is, even if that host is busier."""
    lacking = host("here", missing_files={"qwen": "/models/qwen.gguf"})
    rig = RosterRig().hosts(lacking, host("a", there("llama", in_flight=3)))

    assert where(rig) == (Load, "a")
    assert where(rig, GEMMA) == (Load, "here")


def test_a_model_that_was_loaded_before_its_file_was_removed_is_served() -> None:
    """A running server needs no file any more."""
    rig = RosterRig().hosts(host("here"), host("a", there("qwen"), missing_files={"qwen": "/models/qwen.gguf"}))

    assert where(rig) == (Serve, "a")


def test_a_model_whose_file_is_nowhere() -> None:
    """The error names the hosts and the files, which may have different paths."""
    rig = RosterRig().hosts(
        host("here", missing_files={"qwen": "/models/qwen.gguf"}),
        host("a", missing_files={"qwen": "/models/qwen.gguf"}),
        host("b", missing_files={"qwen": "/data/qwen.gguf"}),
    )

    assert placed(rig) == Nowhere(
        "qwen cannot be placed: a, b, here are missing its file (/data/qwen.gguf, /models/qwen.gguf)."
        " To fix this, copy the file to it."
    )


def test_the_only_host_with_the_file_is_drained() -> None:
    """The error names each obstacle with its host."""
    rig = RosterRig().hosts(host("a"), host("b", missing_files={"qwen": "/models/qwen.gguf"})).order("a", drained=True)

    assert placed(rig) == Nowhere(
        "qwen cannot be placed: a is drained; b is missing its file (/models/qwen.gguf)."
        " To fix this, undrain it or copy the file to it."
    )


def suspected() -> RosterRig:
    rig = RosterRig().hosts(host("a"))
    rig.roster.suspect(HostName("a"), rig.now)
    return rig


TAKEN_BY_OTHERS = {GPU: DeviceBudget(24 * GIB, 2 * GIB)}
HINDERED: dict[Obstacle, tuple[Callable[[], RosterRig], bool]] = {
    Obstacle.LEAVING: (lambda: RosterRig().hosts(host("a", is_leaving=True)), True),
    Obstacle.SUSPECT: (suspected, True),
    Obstacle.DRAINED: (lambda: RosterRig().hosts(host("a")).order("a", drained=True), False),
    Obstacle.CORDONED: (lambda: RosterRig().hosts(host("a")).order("a", cordoned=True), False),
    Obstacle.LABELS: (
        lambda: RosterRig(catalog=fleet_catalog(qwen=offer(labels={"gpu": "b"}))).hosts(host("a")),
        False,
    ),
    Obstacle.MISSING_FILE: (lambda: RosterRig().hosts(host("a", missing_files={"qwen": "/x.gguf"})), False),
    Obstacle.TOO_SMALL: (lambda: RosterRig().hosts(host("a", gib=4)), False),
    Obstacle.NO_MEMORY: (lambda: RosterRig().hosts(host("a", there("llama", gib=20, pinned=True))), False),
    Obstacle.OTHER_PROGRAMS: (lambda: RosterRig().hosts(host("a", devices=TAKEN_BY_OTHERS)), True),
}
"""A fleet with only this obstacle for each kind, and whether it may pass without that anybody changes anything."""


@pytest.mark.parametrize("kind", Obstacle)
def test_waiting_helps_only_where_the_obstacle_may_pass(kind: Obstacle) -> None:
    """The error names the obstacle, and a client is told to come again if it may pass on one host at least."""
    build, may_pass = HINDERED[kind]
    rig = build()
    alone = placed(rig)
    rig.hosts(host("b", missing_files={"qwen": "/x.gguf"}))
    beside_one_that_lasts = placed(rig)

    assert isinstance(alone, Nowhere)
    assert kind.value in alone.reason
    assert isinstance(beside_one_that_lasts, Nowhere)
    assert (alone.may_pass, beside_one_that_lasts.may_pass) == (may_pass, may_pass)


def test_a_host_that_is_expected_back_may_serve_the_model() -> None:
    """For ten minutes after it has left: the only host with the file may just be restarting."""
    rig = RosterRig().hosts(host("a"), host("b", missing_files={"qwen": "/x.gguf"})).remove(Bucket.HOSTS, "a")
    restarting = placed(rig)
    rig.after(KNOWN_S).settle()

    assert isinstance(restarting, Nowhere)
    assert restarting.may_pass
    assert placed(rig) == Nowhere(restarting.reason, may_pass=False)


def test_pinned_models_beside_other_programs() -> None:
    """What the pinned models leave would suffice, so the model is loaded when the other programs end."""
    pinned = there("llama", gib=10, pinned=True)
    rig = RosterRig().hosts(host("a", pinned, devices=TAKEN_BY_OTHERS))

    assert placed(rig) == Nowhere(
        "qwen cannot be placed: a is short of memory that other programs use. To fix this, stop those programs.",
        may_pass=True,
    )
    rig.hosts(host("a", there("llama", gib=20, pinned=True), devices=TAKEN_BY_OTHERS))
    assert "a is full of models that cannot be unloaded" in placed(rig).reason


def test_memory_of_other_devices_does_not_matter() -> None:
    """A claim on one device takes no memory from another."""
    catalog = fleet_catalog(qwen=offer(20), llama=Offer(memory={"gpu1": 20 * GIB}))  # type: ignore[dict-item]
    rig = RosterRig(catalog=catalog).hosts(host("here")).claim("llama", "here")

    assert placed(rig).reason == "here has enough free memory"


# Hosts that could not serve the request


@pytest.mark.parametrize("phase", ["ready", "loading", "cold"])
def test_a_host_that_could_not_serve_a_request_is_not_chosen_again(phase: str) -> None:
    """Another host loads the model for this request, whatever the first one reports meanwhile."""
    rig = RosterRig().hosts(host("a", there("qwen", phase=phase)), host("b"))
    decision = place(QWEN, ALICE, rig.roster, rig.now, {HostName("a")})

    assert where(rig) == (Serve, "a")
    assert isinstance(decision, Load)
    assert decision.host == "b"


def test_no_host_is_left_that_could_serve_a_request() -> None:
    """It is chosen nowhere, although other requests would be."""
    rig = RosterRig().hosts(host("a", there("qwen")), host("b"))

    assert isinstance(place(QWEN, ALICE, rig.roster, rig.now, {HostName("a"), HostName("b")}), Nowhere)
