"""Many requests at one host for one model that no host has: one claim, and nobody cancels it for the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.counting_store import CountingStore
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.in_process_store import Board
from tests.support.waiting import come_true

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import FleetDisconnected, HotseatError
from hotseat.fleet.claims import key_of
from hotseat.fleet.node import FleetNode
from hotseat.fleet.placement import Load
from hotseat.fleet.records import Claim, encoded
from hotseat.fleet.route import THIS_HOST
from hotseat.fleet.store import Bucket, Removed, Revision
from hotseat.identifiers import ClientId, HostName, ModelName
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.fleet.route import Route

ALPHA, BETA = ModelName("alpha"), ModelName("beta")
HERE = HostName("here")


class Requests:
    """Requests that wait until a host is chosen for them."""

    def __init__(self, node: FleetNode) -> None:
        self._node = node
        self.tasks: list[asyncio.Task[None]] = []
        self.answers: list[Route | HotseatError] = []

    def begin(self, count: int, model: ModelName = ALPHA) -> None:
        for n in range(count):
            client = ClientId(f"client {n}")
            self.tasks.append(self._node.host_selector.claim_and_select(model, client, self.answers.append))


@pytest.fixture
async def store() -> CountingStore:
    return CountingStore(Board())


@pytest.fixture
async def node(store: CountingStore) -> AsyncIterator[FleetNode]:
    dispatcher = Dispatcher(Scheduler(catalog(spec("alpha"), spec("beta"))), FakeLauncher(), Journal())
    settings = Fleet(("nats://x",), HERE, "http://here:80", secrets=("hush",))
    node = FleetNode(settings, store, dispatcher, lambda: False)
    await node.join()
    yield node
    await node.leave()
    await dispatcher.shut_down(0)


@pytest.fixture
async def requests(node: FleetNode) -> Requests:
    return Requests(node)


async def test_two_hundred_requests_for_a_cold_model_are_one_claim(store: CountingStore, requests: Requests) -> None:
    """The store is asked once, the decision counts once, and every request is served."""
    store.lets_through.clear()
    requests.begin(200)
    await come_true(lambda: store.count(Bucket.CLAIMS) != {})
    store.lets_through.set()
    await come_true(lambda: len(requests.answers) == 200)

    assert store.count(Bucket.CLAIMS) == {"create": 1}
    assert set(requests.answers) == {THIS_HOST}
    assert sum(requests._node.host_selector.counters.agreements.values()) == 1


@pytest.mark.parametrize("by", [HERE, HostName("elsewhere")])
async def test_a_store_that_lost_its_state_has_lower_revisions(node: FleetNode, requests: Requests, by: str) -> None:
    """Until the watch reports the loss, requests follow the claims that are made or read meanwhile."""
    key, now = key_of(ALPHA, 0), asyncio.get_running_loop().time()
    node.roster.apply(Bucket.CLAIMS, Removed(key, Revision(1000)), now)
    if by != HERE:
        await node.store.create(Bucket.CLAIMS, key, encoded(Claim(ALPHA, HERE, HostName(by), "it was asked for")))
    requests.begin(1)
    await come_true(lambda: requests.answers != [])

    assert requests.answers == [THIS_HOST]


async def test_another_model_does_not_wait(store: CountingStore, requests: Requests) -> None:
    """Claims for different models are in progress at the same time."""
    store.lets_through.clear()
    requests.begin(10, ALPHA)
    requests.begin(10, BETA)
    await come_true(lambda: store.count(Bucket.CLAIMS) == {"create": 2})
    store.lets_through.set()
    await come_true(lambda: len(requests.answers) == 20)

    assert store.count(Bucket.CLAIMS) == {"create": 2}


@pytest.mark.parametrize("cancelled", [0, 2])
async def test_a_client_that_leaves_does_not_end_the_claim(
    store: CountingStore, requests: Requests, cancelled: int
) -> None:
    """Whether it began the claim or waits for it: the other requests get their host."""
    store.lets_through.clear()
    requests.begin(5)
    await come_true(lambda: store.count(Bucket.CLAIMS) == {"create": 1})
    requests.tasks[cancelled].cancel()
    await asyncio.wait([requests.tasks[cancelled]])
    store.lets_through.set()
    await come_true(lambda: len(requests.answers) == 4)

    assert requests.tasks[cancelled].cancelled()
    assert store.count(Bucket.CLAIMS) == {"create": 1}
    assert set(requests.answers) == {THIS_HOST}


async def test_without_the_store_all_follow_one_decision(store: CountingStore, requests: Requests) -> None:
    """If the store is lost during the claim, every request goes to the host that the first one chose."""
    store.lets_through.clear()
    requests.begin(5)
    await come_true(lambda: store.count(Bucket.CLAIMS) == {"create": 1})
    store.cut_off()
    store.lets_through.set()
    await come_true(lambda: len(requests.answers) == 5)
    store.let_in()

    assert set(requests.answers) == {THIS_HOST}


async def test_only_one_of_two_has_made_the_claim(store: CountingStore, node: FleetNode) -> None:
    """An operator's move that comes while another claim is in progress learns that the claim is not its own."""
    store.lets_through.clear()
    load = Load(ALPHA, HERE, 0, "a reason")
    operators = Tasks()
    both = [operators.start(node.host_selector.decide(load, unasked=True), "move") for _ in range(2)]
    await come_true(lambda: store.count(Bucket.CLAIMS) == {"create": 1})
    store.lets_through.set()
    first, second = await asyncio.gather(*both)

    assert first.claim == second.claim
    assert (first.is_ours, second.is_ours) == (True, False)


async def test_a_host_that_leaves_says_so_to_who_waits(store: CountingStore, node: FleetNode) -> None:
    """A claim that ends with the membership is an error with a reason, not a silent cancellation."""
    store.lets_through.clear()
    waits = Tasks().start(_outcome(node), "move")
    await come_true(lambda: store.count(Bucket.CLAIMS) == {"create": 1})
    await node.leave()

    assert "leaves the fleet" in str(await waits)


async def _outcome(node: FleetNode) -> object:
    try:
        return await node.host_selector.decide(Load(ALPHA, HERE, 0, "a reason"))
    except FleetDisconnected as problem:
        return problem
