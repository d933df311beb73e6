"""However many hosts join and leave a fleet, no container of a host that stays grows beyond its bound."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.containers import sizes
from tests.support.depth import by_depth
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.fleet import host, offer, there
from tests.support.in_process_store import Board, InProcess
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.dispatch import journal
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HostUnresponsive
from hotseat.fleet import drift, reconciler, revision_tracker
from hotseat.fleet.claims import key_of
from hotseat.fleet.member import PathState
from hotseat.fleet.node import FleetNode
from hotseat.fleet.proofs import FleetSecret, SignedStore
from hotseat.fleet.records import CatalogRecord, Claim, HostRecord, encoded
from hotseat.fleet.roster import KNOWN_S
from hotseat.fleet.route import OtherHost
from hotseat.fleet.store import LEASE_S, Bucket
from hotseat.identifiers import ClientId, HostName, ModelName
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from hotseat.identifiers import Address

HOSTS = by_depth(400, 20_000)
"""One after the other, each under a name, at an address, and with a catalog and a model of its own."""
AT_A_TIME = 8
EVERY_S = LEASE_S / 2
"""A host joins."""
INTERRUPTED = 200
"""After so many hosts the watch of the store begins anew."""
REMEMBERED = 100
"""Instead of the usual bounds, which the test would reach later."""
USUAL = 64
EXPECTED_BACK = int(KNOWN_S / EVERY_S) + 2 * AT_A_TIME
"""Hosts that have left within that time, each with its catalog, and those that are there."""
FULL = ("Ledger._gone", "Reconciler._acted_on", "Drifts._logged")
BOUNDS = {
    **dict.fromkeys(("Absences._left", "FleetCatalog._catalogs", "FleetNode._catalogs"), EXPECTED_BACK),
    **dict.fromkeys(("Catalog._named_models", "Catalog.fleet_models"), EXPECTED_BACK),
    "FleetModelsChanged.fleet_models": EXPECTED_BACK,
    "Journal._entries": journal.KEPT,
    **dict.fromkeys(FULL, REMEMBERED),
}
HERE, SECRET = HostName("here"), "hush"


class Request:
    """Forwarded to another host."""

    def last_received(self) -> object:
        return self

    def host_is_silent(self) -> None: ...


class OnlyThere:
    """Hosts that answer that they are there, and nothing else."""

    async def path_to(self, address: Address) -> PathState:
        return PathState("")

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any]:
        raise HostUnresponsive("silent")

    async def stop(self, host: HostName, address: str, model: ModelName) -> None: ...


class Soak:
    """Hosts that come once each, and this one, which forwards requests to each of them."""

    def __init__(self) -> None:
        self.board = Board(asyncio.get_running_loop().time)
        self.store, others = InProcess(self.board), InProcess(self.board)
        self.others = SignedStore(others, FleetSecret([SECRET]))
        self.journal = Journal()
        self.dispatcher = Dispatcher(Scheduler(catalog(spec("ours"))), FakeLauncher(), self.journal)
        settings = Fleet(("nats://x",), HERE, "http://here:80", secrets=(SECRET,))
        self.node = FleetNode(settings, self.store, self.dispatcher, lambda: False, OnlyThere())
        self.journal.listen(self.node.watch)
        self.there: deque[HostRecord] = deque()
        self.largest: Counter[str] = Counter()

    async def run(self, hosts: int) -> None:
        await self.node.join()
        for number in range(hosts):
            await self.join(number)
            if len(self.there) > AT_A_TIME:
                await self.leave(self.there.popleft())
            for record in self.there:
                await self.others.put(Bucket.HOSTS, record.name, encoded(record))  # its lease
            await advance(EVERY_S)
            self.use(self.there[-1])
            if number % INTERRUPTED == 0:
                self.store.cut_off()
                self.store.let_in()
            if number % 50 == 0:
                self.largest |= sizes([self.node])

    async def join(self, number: int) -> None:
        """A host with a model of its own and one that all others have, too, and that this host is to load."""
        own = f"model-{number}"
        digest, offers = f"digest-{number}", {ModelName(own): offer(), ModelName("ours"): offer(recipe=str(number))}
        record = host(f"host-{number}", there(own), catalog=digest)
        load = Claim(ModelName(own), HERE, record.name, "it was asked for", unasked=True, id=str(number))
        await self.others.put(Bucket.CATALOGS, digest, encoded(CatalogRecord(offers)))
        await self.others.put(Bucket.HOSTS, record.name, encoded(record))
        await self.others.put(Bucket.CLAIMS, key_of(load.model, 0), encoded(load))
        self.there.append(record)

    async def leave(self, record: HostRecord) -> None:
        await self.others.remove(Bucket.HOSTS, record.name)
        await self.others.remove(Bucket.CATALOGS, record.catalog)

    def use(self, record: HostRecord) -> None:
        """A request goes there, and the host refuses it for every reason."""
        selector, model, request = self.node.host_selector, record.residents[0].model, Request()
        where = selector.select(model, ClientId(f"client of {record.name}"))
        assert isinstance(where, OtherHost)
        selector.sent(where, model, request)
        selector.disbelieved(where.host, "its secret is another one")
        selector.turned_away(where.host, model, "no connection")
        selector.came_back(where.host, model, request)


@pytest.mark.longer
@pytest.mark.uncounted
@in_virtual_time
async def test_no_container_grows_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts, catalogs, models, claims and requests whose names never come again."""
    monkeypatch.setattr(revision_tracker, "MOST_GONE", REMEMBERED)
    monkeypatch.setattr(reconciler, "MOST_ACTED_ON", REMEMBERED)
    monkeypatch.setattr(drift, "MOST_REMEMBERED", REMEMBERED)
    soak = Soak()
    await soak.run(HOSTS)
    found = soak.largest | sizes([soak.node])
    await soak.node.leave()
    await soak.dispatcher.shut_down(0)

    assert {name: size for name, size in found.items() if size > BOUNDS.get(name, USUAL)} == {}
    assert {name: found[name] for name in FULL} == dict.fromkeys(FULL, REMEMBERED)
