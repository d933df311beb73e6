"""What operators do with a fleet: see it, cordon and drain hosts, move models."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.fleet_in_process import MODELS, SECRET, in_process_fleet, process_of
from tests.support.in_process_store import InProcess
from tests.support.virtual_time import advance, in_virtual_time
from tests.support.waiting import come_true, come_true_async

from hotseat.catalog.spec import LaunchRecipe, Replicas
from hotseat.errors import CannotMove, FleetDisconnected, HostUnresponsive, LoadFailed, UnknownHost, UnknownModel
from hotseat.fleet.claims import key_of
from hotseat.fleet.moves import UNHEARD_S
from hotseat.fleet.records import Claim, HostOrder, decoded, encoded
from hotseat.fleet.route import OtherHost
from hotseat.fleet.store import Bucket
from hotseat.fleet.view import AbsentView, Agreement, FleetConnection, HostState, Order
from hotseat.identifiers import Address, HostName, ModelName
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fleet_in_process import InProcessFleet

QWEN = ModelName("qwen")
AT_B = OtherHost(HostName("b"), Address("b", 80))


class Forwarding:
    """A request on its way to another host."""

    def last_received(self) -> None: ...

    def host_is_silent(self) -> None:
        raise AssertionError("it answers")


def orders(fleet: InProcessFleet, seen_by: str, host: str) -> set[Order]:
    [seen] = [each for each in fleet[seen_by].fleet_admin.view().hosts if each.name == host]
    return set(seen.orders)


# To see it


@in_virtual_time
async def test_each_host_is_seen_with_what_is_on_it() -> None:
    """The view has every host with its address and state, and when it was last seen."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["b"].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})
        seen = fleet["a"].fleet_admin.view()

    assert (seen.me, seen.connection) == ("a", FleetConnection.CONNECTED)
    assert [(host.name, host.address, host.state) for host in seen.hosts] == [
        ("a", "http://a", HostState.THIS_HOST),
        ("b", "http://b", HostState.REACHABLE),
    ]
    assert seen.hosts[1].last_seen_s < 5


@in_virtual_time
async def test_a_host_that_refused_a_connection_is_shunned_for_a_while() -> None:
    """The view shows that the host is left out and why, and counts what was sent there and refused."""
    async with in_process_fleet("a", "b") as fleet:
        host_selector = fleet["a"].node.host_selector
        host_selector.sent(AT_B, QWEN, Forwarding())
        host_selector.turned_away(HostName("b"), QWEN, "no connection: Connection refused")
        [_, b] = fleet["a"].fleet_admin.view().hosts

    assert (b.state, b.passed_on, b.turned_away) == (HostState.UNREACHABLE, 1, 1)
    assert b.problem == "no connection: Connection refused"


@in_virtual_time
async def test_a_host_without_the_store_says_that_it_is_apart() -> None:
    """A disconnected host still shows the hosts that it knew."""
    async with in_process_fleet("a", "b") as fleet:
        fleet["a"].store.cut_off()
        await come_true(lambda: fleet["a"].fleet_admin.connection is FleetConnection.DISCONNECTED)

        assert [host.name for host in fleet["a"].fleet_admin.view().hosts] == ["a", "b"]


@in_virtual_time
async def test_what_was_counted_of_a_host_goes_with_it() -> None:
    """When a host leaves the fleet, its counters are removed."""
    async with in_process_fleet("a", "b") as fleet:
        fleet["a"].node.host_selector.sent(AT_B, QWEN, Forwarding())
        await fleet["b"].node.leave()
        await come_true(lambda: len(fleet["a"].fleet_admin.view().hosts) == 1)

        assert not fleet["a"].node.host_selector.counters.passed_on


@in_virtual_time
async def test_who_decided_is_counted() -> None:
    """Claims made by this host, claims lost to another host, and decisions without the store are counted."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["a"].fleet_admin.move("qwen", "b")
        theirs = Claim(ModelName("llama"), HostName("b"), HostName("b"), "it was asked for")
        await fleet["b"].node.store.create(Bucket.CLAIMS, key_of(theirs.model, 0), encoded(theirs))
        with pytest.raises(CannotMove):
            await fleet["a"].fleet_admin.move("llama", "a")
        fleet["a"].store.cut_off()
        with pytest.raises(FleetDisconnected):
            await fleet["a"].fleet_admin.move("qwen", "a")

        assert fleet["a"].fleet_admin.view().agreements == {
            Agreement.MADE: 1,
            Agreement.LOST: 1,
            Agreement.ALONE: 1,
        }


# To close a host


@in_virtual_time
async def test_orders_are_given_and_taken_back_one_by_one() -> None:
    """Withdrawing a cordon keeps the drain; without orders an empty record says that they were withdrawn."""
    async with in_process_fleet("a", "b") as fleet:
        fleet_admin = fleet["a"].fleet_admin
        await fleet_admin.give("b", Order.CORDON)
        await fleet_admin.give("b", Order.DRAIN)
        await come_true(lambda: orders(fleet, "b", "b") == {Order.CORDON, Order.DRAIN})
        await fleet_admin.take_back("b", Order.CORDON)
        await come_true(lambda: orders(fleet, "b", "b") == {Order.DRAIN})
        await fleet_admin.take_back("b", Order.DRAIN)
        await come_true(lambda: orders(fleet, "b", "b") == set())

        assert await fleet["a"].node.store.read(Bucket.ORDERS, "b") is not None


@in_virtual_time
async def test_orders_of_two_operators_both_apply() -> None:
    """Two orders for one host, given at the same moment, both apply."""
    async with in_process_fleet("a", "b", "c") as fleet:
        await asyncio.gather(
            fleet["a"].fleet_admin.give("c", Order.CORDON), fleet["b"].fleet_admin.give("c", Order.DRAIN)
        )

        await come_true(lambda: orders(fleet, "c", "c") == {Order.CORDON, Order.DRAIN})


@in_virtual_time
async def test_an_order_outlives_its_host() -> None:
    """An order for a host that has left can still be withdrawn."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["a"].fleet_admin.give("b", Order.CORDON)
        await come_true(lambda: orders(fleet, "a", "b") == {Order.CORDON})
        await fleet["b"].node.leave()
        await come_true(lambda: len(fleet["a"].fleet_admin.view().hosts) == 1)
        await fleet["a"].fleet_admin.take_back("b", Order.CORDON)

        assert await fleet["a"].node.store.read(Bucket.ORDERS, "b") is not None


@in_virtual_time
async def test_an_order_that_cannot_be_read_is_overwritten() -> None:
    """An unreadable order record is replaced by the next order."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["a"].node.store.put(Bucket.ORDERS, "b", b"scribble")
        await fleet["a"].fleet_admin.give("b", Order.DRAIN)
        await come_true(lambda: orders(fleet, "a", "b") == {Order.DRAIN})
        found = await fleet["a"].node.store.read(Bucket.ORDERS, "b")

    assert found is not None
    order = decoded(found.value, HostOrder)
    assert (order.cordoned, order.drained, order.by) == (False, True, "a")


@in_virtual_time
async def test_a_store_that_has_an_older_order() -> None:
    """Hosts that know the later one write it, and the next order is later than both."""
    async with in_process_fleet("a", "b") as fleet:
        old = HostOrder(cordoned=True, given_ms=7)
        await fleet["a"].fleet_admin.give("b", Order.DRAIN)
        await fleet["a"].fleet_admin.take_back("b", Order.DRAIN)
        await come_true(lambda: fleet["b"].own.ordered_ms and not fleet["b"].own.orders)
        revoked_ms = fleet["b"].own.ordered_ms
        await fleet["a"].node.store.put(Bucket.ORDERS, "b", encoded(old))
        await come_true_async(lambda: has_stored(fleet, HostOrder(by="a", given_ms=revoked_ms)))
        await fleet["a"].node.store.put(Bucket.ORDERS, "b", encoded(old))
        await fleet["a"].fleet_admin.give("b", Order.DRAIN)
        await come_true(lambda: orders(fleet, "b", "b") == {Order.DRAIN})

        assert fleet["b"].own.ordered_ms > revoked_ms


async def has_stored(fleet: InProcessFleet, order: HostOrder) -> bool:
    found = await fleet["a"].node.store.read(Bucket.ORDERS, "b")
    return found is not None and found.value == encoded(order)


@in_virtual_time
async def test_a_name_that_looks_mistyped_gets_no_order() -> None:
    """The error suggests the name of the host; a name that no host can have is an error too."""
    async with in_process_fleet("gpu1", "gpu2") as fleet:
        with pytest.raises(UnknownHost, match='Did you mean "gpu2"'):
            await fleet["gpu1"].fleet_admin.give("gpo2", Order.DRAIN)
        with pytest.raises(UnknownHost, match='no host named "rack 7"'):
            await fleet["gpu1"].fleet_admin.give("rack 7", Order.DRAIN)
        with pytest.raises(UnknownHost, match='no host named "rack7"'):
            await fleet["gpu1"].fleet_admin.take_back("rack7", Order.DRAIN)


@in_virtual_time
async def test_a_host_that_nobody_knows_is_drained() -> None:
    """It obeys when it joins, also if its name differs from another one in its number only."""
    async with in_process_fleet("gpu1", "gpu2") as fleet:
        is_there = [await fleet["gpu1"].fleet_admin.give(name, Order.DRAIN) for name in ("gpu2", "gpu10", "rack7")]
        await come_true(lambda: len(fleet["gpu1"].fleet_admin.view().absent) == 2)
        await fleet["gpu1"].fleet_admin.take_back("rack7", Order.DRAIN)
        await come_true(lambda: len(fleet["gpu1"].fleet_admin.view().absent) == 1)
        joining = process_of(
            Fleet(("nats://nowhere",), HostName("gpu10"), address="http://gpu10", secrets=(SECRET,)),
            InProcess(fleet.board),
            catalog(*MODELS),
            FakeLauncher(),
            None,
        )
        await joining.node.join()
        await come_true(lambda: joining.own.orders == {"drain"})
        await joining.node.leave()

    assert is_there == [True, False, False]


@in_virtual_time
async def test_a_host_that_has_just_left_is_cordoned() -> None:
    """The order waits for it; a move does not."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["b"].node.leave()
        await come_true(lambda: fleet["a"].node.roster.hosts.get(HostName("b")) is None)
        await fleet["a"].fleet_admin.give("b", Order.CORDON)
        await come_true(lambda: fleet["a"].fleet_admin.view().absent)

        assert fleet["a"].fleet_admin.view().absent == (AbsentView(HostName("b"), frozenset({Order.CORDON})),)
        with pytest.raises(CannotMove, match="b is not in the fleet at present"):
            await fleet["a"].fleet_admin.move("qwen", "b")


@in_virtual_time
async def test_without_the_store_no_order_is_given() -> None:
    """Without the store, an order is an error that says that nothing was changed."""
    async with in_process_fleet("a", "b") as fleet:
        fleet["a"].store.cut_off()
        with pytest.raises(FleetDisconnected, match="nothing was changed for b"):
            await fleet["a"].fleet_admin.give("b", Order.DRAIN)


@in_virtual_time
async def test_a_drained_host_empties() -> None:
    """A drained host unloads its idle models."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["b"].dispatcher.operator.load(QWEN)
        await fleet["a"].fleet_admin.give("b", Order.DRAIN)

        await come_true(lambda: fleet["b"].running() == [])


# To move a model


@in_virtual_time
async def test_a_model_moves() -> None:
    """A move loads the model on the target first, and stops it on the source only when it is ready there."""
    async with in_process_fleet(
        "a", "b", launcher=lambda name: FakeLauncher(slow=("qwen",) if name == "b" else ())
    ) as fleet:
        await fleet["a"].dispatcher.operator.load(QWEN)
        moving = Tasks().start(fleet["a"].fleet_admin.move("q", "b"), "move")
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        meanwhile = fleet["a"].running()
        fleet["b"].launcher.become_ready("qwen")
        said = await moving

        assert meanwhile == ["qwen"]
        assert said == "qwen is ready on b and has stopped on a"
        assert (fleet["a"].running(), fleet["b"].running()) == ([], ["qwen"])


@in_virtual_time
async def test_a_third_host_may_be_asked_to_move_a_model() -> None:
    """A host can move a model between two other hosts, and from another host to itself."""
    async with in_process_fleet("a", "b", "c") as fleet:
        await fleet["a"].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["c"].phases_seen("a") == {"qwen": "ready"})
        there = await fleet["c"].fleet_admin.move("qwen", "b")
        await come_true(lambda: fleet["c"].phases_seen("a") == {})
        home = await fleet["c"].fleet_admin.move("qwen", "c")

        assert there == "qwen is ready on b and has stopped on a"
        assert home == "qwen is ready on c and has stopped on b"


@in_virtual_time
async def test_a_model_that_is_nowhere_is_loaded_where_it_shall_be() -> None:
    """Moving a model that runs nowhere loads it on the target."""
    async with in_process_fleet("a", "b") as fleet:
        said = await fleet["a"].fleet_admin.move("qwen", "b")

        assert said == "qwen is ready on b; no surplus copy on another host"
        assert fleet["b"].running() == ["qwen"]


@in_virtual_time
async def test_a_move_that_was_interrupted_is_finished_when_asked_again() -> None:
    """If the model is ready on both hosts, a move stops it on the source."""
    async with in_process_fleet("a", "b") as fleet:
        for name in ("a", "b"):
            await fleet[name].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})

        assert await fleet["a"].fleet_admin.move("qwen", "b") == "qwen is ready on b and has stopped on a"


@in_virtual_time
async def test_a_model_that_has_left_the_target_stays_where_it_is() -> None:
    """The target itself is asked before the model stops elsewhere: its record may be outdated."""
    async with in_process_fleet("a", "b") as fleet:
        for name in ("a", "b"):
            await fleet[name].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})
        fleet["b"].store.cut_off()
        await fleet["b"].dispatcher.operator.unload(QWEN)
        with pytest.raises(CannotMove, match="qwen was ready on b and is not any more, so it was not stopped"):
            await fleet["a"].fleet_admin.move("qwen", "b")

        assert fleet["a"].running() == ["qwen"]


@in_virtual_time
async def test_a_target_does_not_answer_before_a_model_stops_elsewhere() -> None:
    """The model stays where it is, and the error says why the target could not be asked."""
    async with in_process_fleet("a", "b") as fleet:
        for name in ("a", "b"):
            await fleet[name].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})
        fleet.silent.add("b")
        with pytest.raises(CannotMove, match=r"not stopped elsewhere, .* ready there: b did not answer \(timeout\)\."):
            await fleet["a"].fleet_admin.move("qwen", "b")

        assert fleet["a"].running() == ["qwen"]


@in_virtual_time
async def test_replicas_that_are_always_wanted_stay() -> None:
    """After a move, the model runs on the target and still on the minimum number of hosts."""
    models = (spec("qwen", replicas=Replicas(2, 3)),)
    async with in_process_fleet("a", "b", "c", models=lambda _: models) as fleet:
        await come_true(lambda: sum("qwen" in fleet[name].running() for name in "abc") == 2)
        [third] = [name for name in "abc" if "qwen" not in fleet[name].running()]
        await come_true(lambda: len(fleet[third].fleet_admin.sightings(QWEN)) == 2)
        said = await fleet[third].fleet_admin.move("qwen", third)

        assert said.startswith(f"qwen is ready on {third} and has stopped on ")
        assert sum("qwen" in fleet[name].running() for name in "abc") == 2


@in_virtual_time
async def test_a_load_that_fails_stops_nothing() -> None:
    """If the load on the target fails, the model stays on the source, and the error has the target's reason."""
    async with in_process_fleet(
        "a", "b", launcher=lambda name: FakeLauncher(broken=("qwen",) if name == "b" else ())
    ) as fleet:
        await fleet["a"].dispatcher.operator.load(QWEN)
        with pytest.raises(LoadFailed, match=r"did not become ready on b, .* qwen exited with code 1"):
            await fleet["a"].fleet_admin.move("qwen", "b")

        assert fleet["a"].running() == ["qwen"]


@in_virtual_time
async def test_a_model_goes_where_it_runs_not_where_it_failed() -> None:
    """A move stops the model on the host where it runs, not on the one where its start failed."""
    async with in_process_fleet(
        "a", "b", "c", launcher=lambda name: FakeLauncher(broken=("qwen",) if name == "b" else ())
    ) as fleet:
        with pytest.raises(LoadFailed):
            await fleet["b"].dispatcher.operator.load(QWEN)
        await fleet["c"].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "backoff"} and fleet["a"].phases_seen("c"))

        assert await fleet["a"].fleet_admin.move("qwen", "a") == "qwen is ready on a and has stopped on c"


@in_virtual_time
async def test_a_host_that_leaves_meanwhile_ends_the_move() -> None:
    """If the target leaves the fleet during a move, the move is an error."""
    async with in_process_fleet("a", "b", launcher=lambda _: FakeLauncher(slow=("qwen",))) as fleet:
        moving = Tasks().start(fleet["a"].fleet_admin.move("qwen", "b"), "move")
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "loading"})
        await fleet["b"].node.leave()

        with pytest.raises(HostUnresponsive, match="b left the fleet before qwen was ready"):
            await moving


@in_virtual_time
async def test_nothing_arrives_of_the_target_during_a_move() -> None:
    """While NATS is away for long, the move ends with the reason; the model stays where it is."""
    async with in_process_fleet("a", "b", launcher=lambda name: FakeLauncher(slow=("qwen",) * (name == "b"))) as fleet:
        await fleet["a"].dispatcher.operator.load(QWEN)
        moving = Tasks().start(fleet["a"].fleet_admin.move("qwen", "b"), "move")
        await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "loading"})
        fleet["a"].store.cut_off()
        await advance(UNHEARD_S + 5.0)

        assert moving.done()
        with pytest.raises(FleetDisconnected, match="nothing was heard of b for 30 s, so it is unknown whether qwen"):
            await moving
        assert fleet["a"].running() == ["qwen"]


@in_virtual_time
async def test_a_host_that_does_not_stop_it_is_named() -> None:
    """If the source does not answer, the error says that the model is ready on the target and still on the source."""
    async with in_process_fleet("a", "b", "c") as fleet:
        await fleet["a"].dispatcher.operator.load(QWEN)
        await come_true(lambda: fleet["c"].phases_seen("a") == {"qwen": "ready"})
        fleet.silent.add("a")
        with pytest.raises(HostUnresponsive, match="qwen is ready on b, but a still has it: http://a did not answer"):
            await fleet["c"].fleet_admin.move("qwen", "b")


@in_virtual_time
@pytest.mark.parametrize(
    ("order", "says"),
    [(Order.CORDON, "is cordoned. First uncordon it"), (Order.DRAIN, "is drained. First undrain it")],
)
async def test_a_closed_host_gets_nothing(order: Order, says: str) -> None:
    """A move to a cordoned or drained host is an error that says to withdraw the order first."""
    async with in_process_fleet("a", "b") as fleet:
        await fleet["a"].fleet_admin.give("b", order)
        await come_true(lambda: orders(fleet, "a", "b") == {order})
        with pytest.raises(CannotMove, match=f"qwen cannot move to b, which {says}"):
            await fleet["a"].fleet_admin.move("qwen", "b")


async def test_a_host_that_lacks_its_file_gets_nothing(tmp_path: Path) -> None:
    """A move to a host without the model's file is an error that names the file."""
    recipe = LaunchRecipe(("llama-server", "-m", str(tmp_path / "qwen.gguf")), "http://127.0.0.1")
    lacking = (replace(spec("qwen"), recipe=recipe),)
    async with in_process_fleet("a", "b", models=lambda name: MODELS if name == "a" else lacking) as fleet:
        with pytest.raises(CannotMove, match=r"b, which is missing its file \(/.*/qwen.gguf\)\. First copy the"):
            await fleet["a"].fleet_admin.move("qwen", "b")


@in_virtual_time
async def test_a_host_that_does_not_have_it_gets_nothing() -> None:
    """A move to a host without the model in its configuration is an error."""
    async with in_process_fleet("a", "b", models=lambda name: MODELS if name == "a" else MODELS[1:]) as fleet:
        with pytest.raises(CannotMove, match="b does not have qwen in its configuration"):
            await fleet["a"].fleet_admin.move("qwen", "b")


@in_virtual_time
async def test_names_are_looked_up_in_the_whole_fleet() -> None:
    """An unknown model or host is an error that suggests a similar name."""
    async with in_process_fleet("gpu1", "gpu2") as fleet:
        with pytest.raises(UnknownModel, match='Did you mean "qwen"'):
            await fleet["gpu1"].fleet_admin.move("qwem", "gpu2")
        with pytest.raises(UnknownHost, match='Did you mean "gpu'):
            await fleet["gpu1"].fleet_admin.move("qwen", "gpu3")
