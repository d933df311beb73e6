"""Hosts of a fleet in one process: real dispatchers, fake model servers, one in-process store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.in_process_store import Board, InProcess
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe, Replicas
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HotseatError, LoadFailed, NoHostAvailable
from hotseat.fleet import reconciler
from hotseat.fleet.node import FleetNode
from hotseat.fleet.own_state import UnsavedState
from hotseat.fleet.records import HostOrder, HostRecord, encoded
from hotseat.fleet.route import THIS_HOST, OtherHost
from hotseat.fleet.store import Bucket, StoreError
from hotseat.identifiers import ClientId, HostName, ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet
from hotseat.state.fleet_state import FleetState
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.own_state import OwnState
    from hotseat.fleet.route import Route
    from hotseat.fleet.store import Revision

    Open = Callable[..., Awaitable["Host"]]

ALPHA, BETA = ModelName("alpha"), ModelName("beta")
ANN = ClientId("ann")


@dataclass
class Host:
    name: str
    dispatcher: Dispatcher
    node: FleetNode
    store: InProcess

    async def where(self, model: ModelName) -> str:
        """Who serves a request that comes in here."""
        found: Route | HotseatError | None = self.node.host_selector.select(model, ANN)
        if found is None:
            answer: asyncio.Future[Route | HotseatError] = asyncio.get_running_loop().create_future()
            self.node.host_selector.claim_and_select(model, ANN, answer.set_result)
            found = await answer
        if isinstance(found, NoHostAvailable):
            raise found
        return found.host if isinstance(found, OtherHost) else self.name

    def phase(self, model: ModelName) -> str:
        return self.dispatcher.views.of(model).phase.value

    def knows(self, *names: str) -> bool:
        return {member.name for member in self.node.roster.hosts} == set(names)


@pytest.fixture
async def board() -> Board:
    return Board()


@pytest.fixture
async def open_host(board: Board, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Opens a host of one fleet; it leaves after the test."""
    monkeypatch.setattr(reconciler, "ROUND_S", 0.01)
    monkeypatch.setattr(reconciler, "JOINED_S", 0.0)
    async with AsyncExitStack() as stack:

        async def opened(
            name: str,
            *models: ModelSpec,
            prefix: str = "hotseat",
            own: OwnState | None = None,
            broken: tuple[str, ...] = (),
            **known: Any,
        ) -> Host:
            store = InProcess(board)
            journal = Journal()
            launcher = FakeLauncher(broken=broken)
            dispatcher = Dispatcher(Scheduler(replace(catalog(*models), **known)), launcher, journal)
            stack.push_async_callback(dispatcher.shut_down, 0)
            address = f"http://{name}:80"
            settings = Fleet(("nats://x",), HostName(name), address, secrets=("hush",), prefix=prefix)
            node = FleetNode(settings, store, dispatcher, lambda: False, own=own)
            await node.join()
            journal.listen(node.watch)
            stack.push_async_callback(node.leave)
            return Host(name, dispatcher, node, store)

        yield opened


@pytest.fixture
async def pair(open_host: Open) -> tuple[Host, Host]:
    """Two connected hosts with the same models."""
    first, second = [await open_host(name, spec("alpha"), spec("beta")) for name in ("a", "b")]
    await come_true(lambda: first.knows("a", "b") and second.knows("a", "b"))
    return first, second


async def test_two_fleets_on_one_store_do_not_see_each_other(pair: tuple[Host, Host], open_host: Open) -> None:
    """Even in the same buckets and with the same secret, records of one fleet are invalid in the other."""
    staging = [await open_host(name, spec("gamma"), prefix="staging") for name in ("c", "d")]
    production = [*pair, await open_host("e", spec("alpha"))]  # whose record comes after those of c and d
    await come_true(lambda: all(host.knows("a", "b", "e") for host in production))
    await come_true(lambda: all(host.knows("c", "d") for host in staging))

    assert {name for host in production for name in host.dispatcher.catalog.fleet_models} == {"beta"}
    assert not any(host.dispatcher.catalog.fleet_models for host in staging)


async def test_who_writes_to_the_store_is_no_host_by_that(pair: tuple[Host, Host], open_host: Open) -> None:
    """Unsigned records neither add a host nor change the address of a known one."""
    first, _ = pair
    for name in ("evil", "b"):
        forged = HostRecord(HostName(name), "http://attacker:80", "1", "digest")
        await first.store.put(Bucket.HOSTS, name, encoded(forged))
    await open_host("c", spec("alpha"))  # which is known after them
    await come_true(lambda: first.knows("a", "b", "c"))

    assert {member.record.address for member in first.node.roster.hosts} == {f"http://{name}:80" for name in "abc"}


async def test_hosts_agree_on_who_loads_a_model(pair: tuple[Host, Host]) -> None:
    """Before the model is loaded, both hosts select the host that the first request selected."""
    first, second = pair
    chosen = await first.where(ALPHA)

    assert await second.where(ALPHA) == chosen
    assert await first.where(ALPHA) == chosen


async def test_hosts_that_ask_at_the_same_moment_agree(pair: tuple[Host, Host]) -> None:
    """Four concurrent requests on two hosts select the same host."""
    first, second = pair
    chosen = await asyncio.gather(*(host.where(ALPHA) for host in (first, second, first, second)))

    assert len(set(chosen)) == 1


async def test_a_ready_model_is_known_to_all(pair: tuple[Host, Host]) -> None:
    """Both hosts select the host on which the model is ready."""
    first, second = pair
    await first.dispatcher.operator.load(ALPHA)
    await come_true(lambda: second.node.host_selector.select(ALPHA, ANN) is not None)

    assert first.node.host_selector.select(ALPHA, ANN) is THIS_HOST
    assert await second.where(ALPHA) == "a"


async def test_a_second_model_goes_to_the_host_that_is_free(pair: tuple[Host, Host]) -> None:
    """A model is loaded on the host without another model."""
    first, _ = pair
    await first.dispatcher.operator.load(ALPHA)

    assert await first.where(BETA) == "b"


async def test_a_model_that_only_another_host_has_gets_a_name_here(open_host: Open) -> None:
    """Names of models of another host are known here, also after that host has left: it may be restarting."""
    first = await open_host("a", spec("alpha"))
    second = await open_host("b", spec("beta", aliases=("second",)))
    await come_true(lambda: set(first.dispatcher.catalog.fleet_models) == {"beta", "second"})

    assert await first.where(BETA) == "b"
    await second.node.leave()
    await come_true(lambda: first.knows("a"))
    with pytest.raises(NoHostAvailable, match="no available host has it") as lost:
        await first.where(BETA)
    assert lost.value.retry_helps
    assert set(first.dispatcher.catalog.fleet_models) == {"beta", "second"}


async def test_a_reload_keeps_the_names_of_the_others(open_host: Open) -> None:
    """After a reload that adds another host's model, the model can be placed on either host."""
    first = await open_host("a", spec("alpha"))
    await open_host("b", spec("beta"))
    await come_true(lambda: "beta" in first.dispatcher.catalog.fleet_models)
    first.dispatcher.tell(CatalogChanged(catalog(spec("alpha"), spec("beta"))))

    assert await first.where(BETA) in ("a", "b")


async def test_a_host_that_turned_somebody_away_is_left_out(pair: tuple[Host, Host]) -> None:
    """After a host refused a request, the request is placed on this host."""
    first, second = pair
    await second.dispatcher.operator.load(ALPHA)
    await come_true(lambda: isinstance(first.node.host_selector.select(ALPHA, ANN), OtherHost))
    first.node.host_selector.turned_away(HostName("b"), BETA)

    assert await first.where(ALPHA) == "a"


async def test_nobody_can_take_it(open_host: Open, caplog: pytest.LogCaptureFixture) -> None:
    """If no host can serve the model, the error names the hosts and the obstacles; the log names the obstacles too."""
    first = await open_host("a", spec("alpha"))
    await open_host("b", spec("beta"))
    await come_true(lambda: "beta" in first.dispatcher.catalog.fleet_models)
    first.node.host_selector.turned_away(HostName("b"), BETA, "no connection: Connection refused")

    why = r"beta cannot be placed: b is not answering \(no connection: Connection refused\)"
    with pytest.raises(NoHostAvailable, match=why) as lost:
        await first.where(BETA)
    assert lost.value.retry_helps
    logged = "a host gets no requests for a while host=b reason='no connection: Connection refused'"
    assert caplog.messages.count(logged) == 1


async def test_a_host_that_is_cut_off_goes_on_alone(pair: tuple[Host, Host]) -> None:
    """A disconnected host still places requests by itself."""
    first, second = pair
    first.store.cut_off()

    assert await first.where(ALPHA) in ("a", "b")
    assert await second.where(ALPHA) in ("a", "b")


async def test_a_host_learns_where_a_model_is_while_it_waits_for_the_store(
    pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim fails, and the request goes to the host that has the model by now."""
    first, second = pair
    asked, answered = asyncio.Event(), asyncio.Event()

    async def create(*_: object) -> Revision:
        asked.set()
        await answered.wait()
        raise StoreError("the reply was lost")

    monkeypatch.setattr(first.store, "create", create)
    async with asyncio.TaskGroup() as group:
        where = group.create_task(first.where(ALPHA))
        await asked.wait()
        await second.dispatcher.operator.load(ALPHA)
        await come_true(
            lambda: [residence.phase for _, residence in first.node.roster.hosts.residences(ALPHA)] == ["ready"]
        )
        answered.set()

    assert where.result() == "b"


async def test_a_host_that_was_drained_starts_again(open_host: Open, board: Board) -> None:
    """It obeys the order before it knows anything of the store, and writes it there again if the store has lost it."""
    own = UnsavedState()
    own.keep_orders(frozenset({"drain"}), 7)
    host = await open_host("a", spec("alpha"), own=own)

    assert host.node.roster.orders.of(HostName("a")).drained
    await come_true(lambda: "a" in board.current(Bucket.ORDERS))


async def test_a_host_keeps_its_orders_for_the_next_start(open_host: Open) -> None:
    """Those for itself, until they are taken back."""
    own = UnsavedState()
    host = await open_host("a", spec("alpha"), own=own)
    await host.node.store.put(Bucket.ORDERS, "b", encoded(HostOrder(drained=True)))
    await host.node.store.put(Bucket.ORDERS, "a", encoded(HostOrder(cordoned=True)))
    await come_true(lambda: own.orders == {"cordon"})

    await host.node.store.put(Bucket.ORDERS, "a", encoded(HostOrder(given_ms=7)))
    await come_true(lambda: not own.orders)
    assert own.ordered_ms == 7


@pytest.mark.parametrize("leave", [FleetNode.leave, FleetNode.fall_silent])
async def test_a_host_that_got_an_order_stops(
    open_host: Open, tmp_path: Path, leave: Callable[[FleetNode], Awaitable[None]]
) -> None:
    """When it has stopped, the order is in its file."""
    file = StateFile(tmp_path / "fleet.json")
    own = FleetState(file, "a", handed={})
    host = await open_host("a", spec("alpha"), own=own)
    await host.node.store.put(Bucket.ORDERS, "a", encoded(HostOrder(cordoned=True)))
    await come_true(lambda: own.orders == {"cordon"})
    await leave(host.node)

    assert file.read()["orders"] == ["cordon"]


async def test_claims_that_came_true_are_taken_back(pair: tuple[Host, Host], board: Board) -> None:
    """A claim is removed once the model is loaded."""
    first, second = pair
    chosen = first if await first.where(ALPHA) == "a" else second
    await chosen.dispatcher.operator.load(ALPHA)

    await come_true(lambda: not board.current(Bucket.CLAIMS))


async def test_replicas_that_are_always_wanted_are_loaded_without_a_request(open_host: Open) -> None:
    """Without a request, the minimum number of replicas is loaded."""
    wanted = spec("alpha", replicas=Replicas(2, 2))
    hosts = [await open_host(name, wanted) for name in ("a", "b", "c")]

    await come_true(lambda: [host.phase(ALPHA) for host in hosts].count("ready") == 2)


async def test_a_drained_host_empties_itself(pair: tuple[Host, Host]) -> None:
    """A drained host stops its idle model, and the next request is placed on another host."""
    first, second = pair
    await first.dispatcher.operator.load(ALPHA)
    await second.node.store.put(Bucket.ORDERS, "a", encoded(HostOrder(cordoned=True, drained=True)))

    await come_true(lambda: first.phase(ALPHA) == "cold")
    assert await first.where(ALPHA) == "b"


# Files of models


def llama(file: Path) -> ModelSpec:
    return replace(spec("alpha"), recipe=LaunchRecipe(("llama-server", "-m", str(file)), "http://127.0.0.1"))


async def test_a_model_is_loaded_where_its_file_is(open_host: Open, tmp_path: Path) -> None:
    """A host that lacks the file is left out, although a request for the model arrived there."""
    (tmp_path / "there.gguf").touch()
    first = await open_host("a", llama(tmp_path / "absent.gguf"))
    await open_host("b", llama(tmp_path / "there.gguf"))
    await come_true(lambda: first.knows("a", "b"))

    assert await first.where(ALPHA) == "b"


async def test_a_file_that_vanished_is_noticed_after_the_load_that_failed(open_host: Open, tmp_path: Path) -> None:
    """The next request for the model goes elsewhere or gets an error that names the host and the file."""
    file = tmp_path / "alpha.gguf"
    file.touch()
    first = await open_host("a", llama(file), broken=("alpha",))
    second = await open_host("b", spec("beta"))
    await come_true(lambda: "alpha" in second.dispatcher.catalog.fleet_models)
    file.unlink()
    with pytest.raises(LoadFailed):
        await first.dispatcher.operator.load(ALPHA)
    await come_true(lambda: second.node.roster.hosts.get(HostName("a")).record.missing_files)  # type: ignore[union-attr]

    with pytest.raises(
        NoHostAvailable, match=rf"alpha cannot be placed: a is missing its file \({file}\)\. To fix"
    ) as lost:
        await second.where(ALPHA)
    assert lost.value.retry_helps is False


async def test_a_reload_that_names_another_file_is_noticed(open_host: Open, tmp_path: Path) -> None:
    """The host publishes what the new configuration lacks."""
    first = await open_host("a", spec("alpha"))
    second = await open_host("b", spec("beta"))
    await come_true(lambda: second.knows("a", "b"))
    first.dispatcher.tell(CatalogChanged(catalog(llama(tmp_path / "absent.gguf"))))

    await come_true(lambda: second.node.roster.hosts.get(HostName("a")).record.missing_files)  # type: ignore[union-attr]
