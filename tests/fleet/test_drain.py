"""A drained host hands its models over: each is loaded elsewhere while it still serves, and stops after that."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.conversations import Silent
from tests.support.fake_launcher import FakeLauncher, spec
from tests.support.fleet import RosterRig, host, there
from tests.support.fleet_in_process import MODELS, in_process_fleet
from tests.support.virtual_time import advance, in_virtual_time
from tests.support.waiting import come_true

from hotseat.catalog.spec import Replicas
from hotseat.errors import NoHostAvailable, NotServed
from hotseat.fleet.claims import Agreed
from hotseat.fleet.orders import TRIES, Drain
from hotseat.fleet.records import Claim
from hotseat.fleet.replicas import UNUSED_LOADS
from hotseat.fleet.route import THIS_HOST, OtherHost
from hotseat.fleet.store import Revision
from hotseat.fleet.view import Order
from hotseat.identifiers import ClientId, HostName, ModelName
from hotseat.scheduling.model_stats import UNKNOWN_LOAD_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fleet_in_process import InProcessFleet

    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.placement import Load

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
ANN = ClientId("ann")
SLOW = ("qwen", "llama")
ROUNDS_S = 5.0
"""Long enough for whatever a host does periodically."""
LONG_S = UNUSED_LOADS * UNKNOWN_LOAD_S + ROUNDS_S
"""A model that was not requested for so long is not in use."""


@asynccontextmanager
async def fleet_with_a_slow_loader(
    *models: ModelSpec, hosts: tuple[str, ...] = ("a", "b"), broken: tuple[str, ...] = ()
) -> AsyncIterator[InProcessFleet]:
    """Models load at once on host a; on the others they wait for the test, or fail."""

    def launcher(name: str) -> FakeLauncher:
        return FakeLauncher() if name == "a" else FakeLauncher(slow=SLOW, broken=broken)

    async with in_process_fleet(*hosts, models=lambda _: models or MODELS, launcher=launcher) as fleet:
        yield fleet


async def drain(fleet: InProcessFleet, host: str = "a") -> None:
    others = [name for name in fleet.hosts if name != host]
    await fleet[others[-1]].fleet_admin.give(host, Order.DRAIN)
    await come_true(lambda: all(orders(fleet, name, host) == {Order.DRAIN} for name in fleet.hosts))


def orders(fleet: InProcessFleet, seen_by: str, host: str) -> frozenset[Order]:
    return next(each.orders for each in fleet[seen_by].fleet_admin.view().hosts if each.name == host)


def route(fleet: InProcessFleet, entry: str, model: ModelName = QWEN) -> str | None:
    """Who serves a request that arrives there; None: hosts must agree first."""
    where = fleet[entry].node.host_selector.select(model, ANN)
    if isinstance(where, OtherHost):
        return where.host
    return entry if where is THIS_HOST else None


async def loaded(fleet: InProcessFleet, *models: ModelName) -> None:
    """On host a, as all hosts know."""
    for model in models:
        await fleet["a"].dispatcher.operator.load(model)
    phases = dict.fromkeys(models, "ready")
    await come_true(lambda: all(host.phases_seen("a") == phases for host in fleet.hosts.values()))


@in_virtual_time
async def test_a_model_in_use_is_ready_elsewhere_before_it_stops() -> None:
    """Requests go on to the drained host until then, whoever gets them, and to the other host from then on."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        await drain(fleet)
        at_once = [route(fleet, name) for name in "ab"]
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        await advance(ROUNDS_S)
        meanwhile, still_running = [route(fleet, name) for name in "ab"], fleet["a"].running()
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: fleet["a"].running() == [])

        assert (at_once, meanwhile, still_running) == (["a", "a"], ["a", "a"], ["qwen"])
        assert [route(fleet, name) for name in "ab"] == ["b", "b"]


@in_virtual_time
async def test_a_request_in_flight_is_not_cut() -> None:
    """The model stops when its last request is over, although it is ready elsewhere."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        ticket = fleet["a"].dispatcher.ask(QWEN, ANN, Silent())
        await drain(fleet)
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: route(fleet, "a") == "b")
        await advance(ROUNDS_S)
        during = fleet["a"].running()
        fleet["a"].dispatcher.leave(ticket, is_answered=True)
        await come_true(lambda: fleet["a"].running() == [])

        assert during == ["qwen"]


@in_virtual_time
async def test_a_model_that_was_not_used_for_a_while_just_stops() -> None:
    """Nobody waits for it, and its load might evict models in use."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        await advance(LONG_S)
        await drain(fleet)
        await come_true(lambda: fleet["a"].running() == [])
        await advance(ROUNDS_S)

        assert not fleet["b"].launcher.is_starting("qwen")


@in_virtual_time
@pytest.mark.parametrize(
    "model", [spec("qwen", pinned=True), spec("qwen", replicas=Replicas(1, 1))], ids=["pinned", "required"]
)
async def test_a_model_that_is_meant_to_be_there_is_kept_anyway(model: ModelSpec) -> None:
    """A pinned model, and one with a minimum of replicas, is loaded elsewhere however long it was unused."""
    async with fleet_with_a_slow_loader(model) as fleet:
        if not fleet["a"].running():
            await loaded(fleet, QWEN)
        await advance(LONG_S)
        await drain(fleet)
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        still_running = fleet["a"].running()
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: fleet["a"].running() == [])

        assert still_running == ["qwen"]


@in_virtual_time
async def test_no_other_host_can_load_it(caplog: pytest.LogCaptureFixture) -> None:
    """The drain ends all the same: the host takes no more requests for the model, stops it, and logs why."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        await fleet["b"].fleet_admin.give("b", Order.CORDON)
        await come_true(lambda: orders(fleet, "a", "b") == {Order.CORDON})
        await drain(fleet)
        await come_true(lambda: fleet["a"].running() == [])

        with pytest.raises(NoHostAvailable, match=r"qwen cannot be placed: a is drained; b is cordoned\."):
            route(fleet, "a")
    assert "is loaded nowhere model=qwen reason='qwen cannot be placed: a is drained; b is cordoned" in caplog.text


@in_virtual_time
async def test_a_load_elsewhere_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Each other host is tried once, three of them at most, and then the model stops."""
    names = tuple("abcdef")
    async with fleet_with_a_slow_loader(hosts=names, broken=("qwen",)) as fleet:
        await loaded(fleet, QWEN)
        await drain(fleet)
        await come_true(lambda: fleet["a"].running() == [])
        tried = [name for name in names if fleet[name].dispatcher.views.of(QWEN).failures]

        assert len(tried) == TRIES
    assert caplog.text.count("is loaded nowhere model=qwen") == 1


@in_virtual_time
async def test_the_only_other_host_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    """A host where the model has failed is not tried again, since that would go on for ever."""
    async with fleet_with_a_slow_loader(broken=("qwen",)) as fleet:
        await loaded(fleet, QWEN)
        await drain(fleet)
        await come_true(lambda: fleet["a"].running() == [])

        assert fleet["b"].dispatcher.views.of(QWEN).failures == 1
    assert "qwen has failed on b, and no other host can load it" in caplog.text


@in_virtual_time
async def test_the_host_that_gave_the_order_leaves() -> None:
    """The drained host goes on by itself."""
    async with fleet_with_a_slow_loader(hosts=("a", "b", "c")) as fleet:
        await loaded(fleet, QWEN)
        await drain(fleet)
        await fleet["c"].node.leave()
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: fleet["a"].running() == [])


@in_virtual_time
async def test_the_store_is_unreachable_for_a_while() -> None:
    """Nobody can be told to load the model, so it stays and serves until the store is back."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        await drain(fleet)
        for host in fleet.hosts.values():
            host.store.cut_off()
        await advance(ROUNDS_S)
        meanwhile = fleet["a"].running(), route(fleet, "a")
        for host in fleet.hosts.values():
            host.store.let_in()
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: fleet["a"].running() == [])

        assert meanwhile == (["qwen"], "a")


@in_virtual_time
async def test_a_drain_that_is_taken_back() -> None:
    """The host takes requests again, also for models it had given up."""
    async with fleet_with_a_slow_loader(hosts=("a", "b")) as fleet:
        await loaded(fleet, QWEN)
        ticket = fleet["a"].dispatcher.ask(QWEN, ANN, Silent())
        await fleet["b"].fleet_admin.give("b", Order.CORDON)
        await come_true(lambda: orders(fleet, "a", "b") == {Order.CORDON})
        await drain(fleet)
        await come_true(lambda: fleet["a"].node.describe().released == ["qwen"])
        await fleet["b"].fleet_admin.take_back("a", Order.DRAIN)
        await come_true(lambda: fleet["a"].node.describe().released == [])
        await come_true(lambda: route(fleet, "b") == "a")
        fleet["a"].dispatcher.leave(ticket, is_answered=True)
        await advance(ROUNDS_S)

        assert fleet["a"].running() == ["qwen"]


@in_virtual_time
async def test_requests_that_other_hosts_send_to_a_drained_host() -> None:
    """It takes those for a model that it hands over, and refuses those for which it would have to load the model."""
    async with fleet_with_a_slow_loader() as fleet:
        await loaded(fleet, QWEN)
        hosts = fleet["a"].node.host_selector
        hosts.check_taken(LLAMA)
        await drain(fleet)
        hosts.check_taken(QWEN)
        with pytest.raises(NotServed, match="a is drained and takes no requests for llama"):
            hosts.check_taken(LLAMA)
        await come_true(lambda: fleet["b"].launcher.is_starting("qwen"))
        fleet["b"].launcher.become_ready("qwen")
        await come_true(lambda: fleet["a"].running() == [])

        with pytest.raises(NotServed):
            hosts.check_taken(QWEN)


# The order of loads, on a roster alone


@dataclass
class Recorder:
    """Agrees to every load, and records it."""

    loads: list[tuple[str, str]] = field(default_factory=list)
    is_reachable: bool = True
    """Whether the store is."""

    async def decide(self, decision: Load, *, unasked: bool = False) -> Agreed:
        assert unasked
        self.loads.append((decision.model, decision.host))
        return Agreed(
            Claim(decision.model, decision.host, decision.host, decision.reason),
            Revision(1) if self.is_reachable else None,
        )


@dataclass
class DrainRig:
    """This host, drained, with three models; `released` is what it publishes."""

    roster_rig: RosterRig = field(default_factory=RosterRig)
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.drain = Drain(self.roster_rig.roster, cast("HostSelector", self.recorder), lambda: None)

    async def round(self) -> list[str]:
        """What this host stops."""
        return [spare.model for spare in await self.drain.go(self.roster_rig.now, may_load=True)]


def three_models() -> DrainRig:
    rig = DrainRig()
    models = there("llama", idle_s=50.0), there("qwen", idle_s=2.0), there("gemma", idle_s=20.0)
    rig.roster_rig.hosts(host("here", *models), host("a"), host("b")).order("here", drained=True)
    return rig


async def test_models_are_handed_over_one_at_a_time() -> None:
    """The most recently used one comes first, and the next one when that is ready elsewhere."""
    rig = three_models()
    await rig.round()
    rig.roster_rig.claim("qwen", "a")
    await rig.round()
    rig.roster_rig.hosts(host("a", there("qwen", "loading")))
    await rig.round()
    one_at_a_time = list(rig.recorder.loads)
    rig.roster_rig.hosts(host("a", there("qwen")))
    stopped = [await rig.round(), await rig.round()]

    assert [model for model, _ in one_at_a_time] == ["qwen"]
    assert [model for model, _ in rig.recorder.loads[1:]] == ["gemma", "gemma"]
    assert stopped == [[], ["qwen"]]
    assert rig.drain.released == {"qwen"}


async def test_loads_that_nobody_hears_of_do_not_count() -> None:
    """However often the store is unreachable, the model is not given up."""
    rig = three_models()
    rig.recorder.is_reachable = False
    for _ in range(2 * TRIES):
        await rig.round()

    assert [model for model, _ in rig.recorder.loads] == ["qwen"] * 2 * TRIES
    assert rig.drain.released == frozenset()


async def test_a_model_that_sleeps_elsewhere_is_woken() -> None:
    """That is faster than a load, and uses the memory that the other host has set aside for it."""
    rig = DrainRig()
    rig.roster_rig.hosts(host("here", there("qwen")), host("a"), host("b", there("qwen", "asleep")))
    rig.roster_rig.order("here", drained=True)
    await rig.round()

    assert rig.recorder.loads == [("qwen", "b")]


async def test_models_that_do_not_run_are_not_handed_over() -> None:
    """One that sleeps here stops; for one that failed, or that requests still wait for, there is nothing to stop."""
    rig = DrainRig()
    phases = there("qwen", "asleep"), there("llama", "backoff"), there("gemma", "cold", waiting=1)
    rig.roster_rig.hosts(host("here", *phases), host("a")).order("here", drained=True)
    stopped = [await rig.round(), await rig.round()]

    assert stopped == [[], ["qwen"]]
    assert rig.recorder.loads == []


async def test_a_host_without_orders_keeps_its_models() -> None:
    """Nothing is loaded, stopped or released."""
    rig = DrainRig()
    nobody = await rig.round()
    rig.roster_rig.hosts(host("here", there("qwen")), host("a"))

    assert (nobody, await rig.round(), rig.recorder.loads, rig.drain.released) == ([], [], [], frozenset())


@in_virtual_time
async def test_requests_that_other_hosts_send_to_a_cordoned_host() -> None:
    """It takes those for models that are loaded. A host that was refused another one still uses it for these."""
    async with fleet_with_a_slow_loader(hosts=("a", "b")) as fleet:
        await loaded(fleet, QWEN)
        await come_true(lambda: route(fleet, "b") == "a")
        await fleet["b"].fleet_admin.give("a", Order.CORDON)
        await come_true(lambda: orders(fleet, "a", "a") == orders(fleet, "b", "a") == {Order.CORDON})
        fleet["a"].node.host_selector.check_taken(QWEN)
        with pytest.raises(NotServed, match="a is cordoned and does not load llama"):
            fleet["a"].node.host_selector.check_taken(LLAMA)
        fleet["b"].node.host_selector.turned_away(HostName("a"), LLAMA)

        assert route(fleet, "b") == "a"
