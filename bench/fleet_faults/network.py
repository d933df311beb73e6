"""The simulated NATS and the simulated network between hosts, and what has happened to hosts recently."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, TypeVar

from tests.support.in_process_store import Board, InProcess, Watcher

from hotseat.catalog.spec import HOST_TIMEOUTS
from hotseat.fleet.store import BegunAnew, CaughtUp, Conflict, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from random import Random
    from typing import Any

    from bench.fleet_faults.host import SimulatedHost

    from hotseat.fleet.store import Bucket, Change, Revision, Written
    from hotseat.identifiers import HostName, Instant, Seconds

    Effect = Callable[[InProcess], Coroutine[Any, Any, "Result"]]

Result = TypeVar("Result")

PATIENCE_S: Seconds = 2.0
"""How long a host waits for a reply."""
USUAL_S, SLOW_S = 0.02, 1.5
"""The longest way of a message, usually and while NATS is slow."""
AGAIN_S = (0.1, 2.0)
"""Before a watch begins anew."""
REPEATED = 0.05
"""The share of changes that a watcher receives once more, later."""


class SimulatedNats:
    def __init__(self, rng: Random, clock: Callable[[], float]) -> None:
        self.rng, self._clock = rng, clock
        self.board = Board(clock)
        self.is_up, self.is_slow = True, False
        self._up_since: float = 0.0
        self.loses = 0.0
        """The share of operations whose request or reply is lost."""
        self.cut_off: set[HostName] = set()
        self._stores: list[HostStore] = []

    def connect(self, host: HostName, awake: asyncio.Event) -> HostStore:
        self._stores.append(HostStore(self, host, awake))
        return self._stores[-1]

    def serves(self, host: HostName) -> bool:
        return self.is_up and host not in self.cut_off

    def go_away(self) -> None:
        self.is_up = False
        self.interrupt()

    def come_back(self, *, is_empty: bool = False) -> None:
        if is_empty:
            self.board = Board(self._clock)
            self.interrupt()
        self.is_up, self._up_since = True, self._clock()

    def is_calm(self, since: Seconds) -> bool:
        """Has it answered for so long?"""
        return self.is_up and not self.is_slow and not self.loses and self._clock() - self._up_since >= since

    def interrupt(self, *hosts: HostName) -> None:
        """End the watches of these hosts, or of all."""
        for store in self._stores:
            if not hosts or store.host in hosts:
                store.lapse()

    async def travel(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0, SLOW_S if self.is_slow else USUAL_S))


class HostStore:
    """One host's connection. Each operation takes effect at one moment, or nobody knows whether it did."""

    def __init__(self, nats: SimulatedNats, host: HostName, awake: asyncio.Event) -> None:
        self.host = host
        self._nats, self._awake = nats, awake
        self._watchers: list[Watcher] = []

    @property
    def is_connected(self) -> bool:
        return self._nats.serves(self.host)

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        return await self._ask(lambda store: store.create(bucket, key, value))

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        return await self._ask(lambda store: store.replace(bucket, key, value, last))

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        return await self._ask(lambda store: store.put(bucket, key, value))

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        await self._ask(lambda store: store.remove(bucket, key, last))

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        return await self._ask(lambda store: store.read(bucket, key))

    async def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        await self._until_served()
        while True:
            async for change in self._session(bucket):
                await self._awake.wait()
                yield change
            await asyncio.sleep(self._nats.rng.uniform(*AGAIN_S))
            await self._until_served()
            yield BegunAnew()

    async def aclose(self) -> None:
        self.lapse()

    def lapse(self) -> None:
        for watcher in self._watchers:
            watcher.cut()

    # Operations

    async def _ask(self, effect: Effect[Result]) -> Result:
        await self._awake.wait()
        await self._pass("the request")
        try:
            result: Result | Conflict = await effect(InProcess(self._nats.board))
        except Conflict as conflict:
            result = conflict
        await self._pass("the reply")
        await self._awake.wait()
        if isinstance(result, Conflict):
            raise result
        return result

    async def _pass(self, what: str) -> None:
        await self._nats.travel()
        if not self._nats.serves(self.host) or self._nats.rng.random() < self._nats.loses:
            await asyncio.sleep(PATIENCE_S)
            raise StoreError(f"{what} was lost")

    async def _until_served(self) -> None:
        while not self._nats.serves(self.host):  # noqa: ASYNC110 - as a client that connects again and again
            await asyncio.sleep(self._nats.rng.uniform(*AGAIN_S))
        await self._awake.wait()

    # Watches

    async def _session(self, bucket: Bucket) -> AsyncIterator[Change]:
        """The state, then changes, late; it may end anywhere, also within the state."""
        board = self._nats.board
        received: list[Change] = []
        with self._watching(bucket, board) as (watcher, state):
            for written in state:
                await self._nats.travel()
                if watcher.is_cut:
                    return
                yield written
            yield CaughtUp()
            async for change in watcher.changes():
                await self._nats.travel()
                if watcher.is_cut:
                    return
                received.append(change)
                yield change
                if self._nats.rng.random() < REPEATED:
                    yield self._nats.rng.choice(received[-5:])

    @contextmanager
    def _watching(self, bucket: Bucket, board: Board) -> Iterator[tuple[Watcher, tuple[Written, ...]]]:
        watcher = Watcher()
        self._watchers.append(watcher)
        try:
            with board.watching(bucket, watcher):
                yield watcher, tuple(board.current(bucket).values())
        finally:
            self._watchers.remove(watcher)


WAY_S: Seconds = 0.05
CLOCKS_S: Seconds = 60.0
"""Hosts whose clocks differ by more do not believe each other."""


class SimulatedNetwork:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.hosts: dict[HostName, SimulatedHost] = {}
        """Whoever listens at the address of this name."""
        self.cut: set[frozenset[HostName]] = set()
        """Pairs that cannot reach each other."""
        self.stalled: set[frozenset[HostName]] = set()
        """Pairs between which something accepts connections and passes nothing on, as a hung proxy does."""
        self.skew_s: dict[HostName, Seconds] = {}
        """How far a host's clock is from the others'."""

    async def travel(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, WAY_S))

    def at(self, address: str) -> SimulatedHost | None:
        name = address.removeprefix("http://").partition(":")[0]
        host = self.hosts.get(name)  # type: ignore[call-overload]  # a name from an address
        return host if host is not None and host.is_alive else None

    def is_cut(self, one: HostName, other: HostName) -> bool:
        return frozenset((one, other)) in self.cut

    async def until_passed_on(self, one: HostName, other: HostName) -> None:
        while frozenset((one, other)) in self.stalled:  # noqa: ASYNC110 - as bytes that lie in a buffer
            await asyncio.sleep(WAY_S)

    def is_open(self, one: HostName, other: HostName) -> bool:
        """Do requests of one host reach the other, and are they believed?"""
        return not {frozenset((one, other))} & (self.cut | self.stalled) and self.believes(one, other)

    def believes(self, one: HostName, other: HostName) -> bool:
        return abs(self.skew_s.get(one, 0.0) - self.skew_s.get(other, 0.0)) <= CLOCKS_S

    async def connect(self, origin: SimulatedHost, address: str) -> SimulatedHost | None:
        """Who accepts the connection, as the kernel of a stopped host does too; None: nobody."""
        await self.travel()
        there = self.at(address)
        if there is not None and self.is_cut(origin.name, there.name):
            await asyncio.sleep(HOST_TIMEOUTS.connect_s or 0.0)
            return None
        return there

    async def reach(self, origin: SimulatedHost, address: str, within: Seconds) -> SimulatedHost | None:
        """Who answers in time; None: nobody."""
        there = await self.connect(origin, address)
        if there is None or not self.believes(origin.name, there.name):
            return None
        try:
            async with asyncio.timeout(within):
                await self.until_passed_on(origin.name, there.name)
                await there.awake.wait()
        except TimeoutError:
            return None
        return there if there.is_alive else None


RECENT_S: Seconds = 30.0
"""A host that was there so recently is restarting, not gone."""
SETTLED_S: Seconds = 5.0
"""After a move, or the stop of a surplus replica, all requests are on their way to the right host."""


class Disturbances:
    def __init__(self, nats: SimulatedNats, network: SimulatedNetwork) -> None:
        self._nats, self._network = nats, network
        self._now = asyncio.get_running_loop().time
        self._disturbed: dict[HostName, Instant] = {}
        """When something last happened to a host by which others may consider it absent."""
        self.seconds: list[SimulatedHost] = []
        """Machines that try to take the name of a host."""
        self._stolen: dict[HostName, Instant] = {}
        """When one last held it, as is possible while NATS or the first machine is away: it replaces the record."""

    def note(self, host: HostName) -> None:
        self._disturbed[host] = self._now()

    def observe(self) -> None:
        """While some hosts cannot reach others or NATS, or leases may end, those decide alone, and about all hosts."""
        network = self._network
        if self._nats.loses or self._nats.cut_off or network.cut or network.stalled or network.skew_s:
            for name in self._network.hosts:
                self.note(name)
        for name in filter(self.is_stolen, self._network.hosts):
            self._stolen[name] = self._now()

    def is_calm(self, *hosts: HostName) -> bool:
        """Has nothing happened to them recently?"""
        return all(self._now() - self._disturbed.get(host, -inf) > RECENT_S for host in hosts)

    def is_all_calm(self) -> bool:
        return self.is_calm(*self._network.hosts) and self._nats.is_calm(RECENT_S)

    def last(self, host: HostName) -> Instant:
        return max(self._disturbed.get(host, -inf), self._stolen.get(host, -inf))

    def is_stolen(self, name: HostName) -> bool:
        return any(second.name == name and second.holds_name for second in self.seconds)

    def were_stolen(self, *names: HostName) -> bool:
        """Recently: others may still have the record of the machine that took one of the names."""
        return any(self._now() - self._stolen.get(name, -inf) <= RECENT_S for name in names)

    def lacks_news(self, host: HostName) -> bool:
        """NATS is slow or was away, or the host itself was stopped: it has not received all records since."""
        since = self._disturbed.get(host, -inf)
        return not self._nats.is_calm(SETTLED_S) or self._now() - since < SETTLED_S
