"""A fleet on a virtual clock: hosts with the production scheduler, requests placed by a policy, records and claims.

Simplified: hosts receive each other's records and claims in groups, so that there are a few rosters instead of one per
host; what one of a group sends, the whole group knows at once. Messages take a fixed time and none is lost. A request
reaches any host that is up, as behind a load balancer.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias

from bench.fleet.figures import Counters, figures
from bench.fleet.simulated_host import GIB, GPU, Clock, Host, Request
from bench.fleet.workload import DOWN_S, SLOTS

from hotseat.fleet.claims import key_of
from hotseat.fleet.placement import Load, Nowhere, Serve, place
from hotseat.fleet.records import CatalogRecord, Claim, Offer, encoded
from hotseat.fleet.replicas import one_more, to_spare
from hotseat.fleet.roster import Roster
from hotseat.fleet.store import LEASE_S, Bucket, Removed, Revision, Written
from hotseat.identifiers import ClientId, HostName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet.figures import Figures
    from bench.fleet.workload import Ask, Model, Workload

    from hotseat.fleet.placement import Decision
    from hotseat.fleet.store import Change
    from hotseat.identifiers import Instant, ModelName, Seconds

NOBODY = ClientId("")


class Policy(Protocol):
    is_fleet: bool
    """Whether it reads host records and makes claims."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision: ...


class Placement:
    """Production code."""

    is_fleet = True

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        return place(ask.model.name, ask.client, roster, now)


class WithoutAffinity:
    """The same for clients without identity: the ready replica with the least load per slot."""

    is_fleet = True

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        return place(ask.model.name, NOBODY, roster, now)


class FittingHosts:
    """For policies that only know which hosts are up and which fit a model at all."""

    is_fleet = False

    def __init__(self, hosts: Sequence[Host], seed: int) -> None:
        self._hosts, self._rng = hosts, Random(seed)
        self._fitting: dict[tuple[int, str], list[Host]] = {}

    def fitting(self, model: Model) -> list[Host]:
        kind = (model.gib, model.site)
        if kind not in self._fitting:
            self._fitting[kind] = [
                host for host in self._hosts if host.machine.gib >= model.gib and model.site in ("", host.machine.site)
            ]
        return self._fitting[kind]


class AtRandom(FittingHosts):
    """A load balancer in front of hosts that do not know each other."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        hosts = self.fitting(ask.model)
        living = [host for host in self._rng.sample(hosts, min(3, len(hosts))) if host.is_up]
        return Serve(living[0].machine.name, "chance") if living else Nowhere("nobody lives")


class LeastLoaded(FittingHosts):
    """A load balancer that counts connections exactly."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        living = [host for host in self.fitting(ask.model) if host.is_up]
        if not living:
            return Nowhere("nobody lives")
        fewest = min(len(host.requests) for host in living)
        best = self._rng.choice([host for host in living if len(host.requests) == fewest])
        return Serve(best.machine.name, "fewest connections")


Maker: TypeAlias = "Callable[[Sequence[Host], int], Policy]"

POLICIES: dict[str, Maker] = {
    "hotseat": lambda hosts, seed: Placement(),
    "without affinity": lambda hosts, seed: WithoutAffinity(),
    "least connections": LeastLoaded,
    "random": AtRandom,
}


GROUPS = 2
STORE_S, HOP_S = 0.002, 0.001
"""A write to the store and its notification; a hop from host to host."""
RENEWED_S: Seconds = 3.0
AT_MOST_EVERY_S: Seconds = 0.2
SPARED_EVERY_S: Seconds = 60.0
MOST_REPLICAS = 64
TRIES = 4
DIGEST = "catalog"


class Fleet:
    def __init__(self, workload: Workload, make: Maker) -> None:
        self.counters = Counters()
        self._workload = workload
        self._clock = Clock()
        self._rng = Random(workload.seed + 3)
        self._hosts = {machine.name: Host(machine, self._clock, self, DIGEST) for machine in workload.machines}
        self._names = list(self._hosts)
        self._models = {model.name: model for model in workload.models}
        self._policy = make(list(self._hosts.values()), workload.seed + 4)
        self._rosters = [Roster(HostName("")) for _ in range(GROUPS if self._policy.is_fleet else 1)]
        self._revision = 0
        self._claims: dict[str, tuple[float, Claim]] = {}
        self._published: dict[HostName, float] = {}
        self._due: set[HostName] = set()
        self._loading: dict[ModelName, int] = {}
        self._wanted: set[tuple[ModelName, HostName]] = set()
        """Further replicas that were requested."""
        self._last: dict[ClientId, HostName] = {}

    def run(self) -> Counters:
        if self._policy.is_fleet:
            self._introduce()
        for when, name in self._workload.failures():
            self._clock.at(when, self._fails, self._hosts[name])
        for ask in self._workload.asks():
            self._clock.run_until(ask.at)
            self._arrives(ask)
        while self._is_waited_for():
            self._clock.run_until(self._clock.now + RENEWED_S)
        return self.counters

    def _is_waited_for(self) -> bool:
        return self.counters.served + self.counters.refused + self.counters.broken < self._workload.requests

    def _introduce(self) -> None:
        self._write(Bucket.CATALOGS, DIGEST, encoded(catalog_of(self._workload)))
        for host in self._hosts.values():
            self._publish(host)
            self._clock.at(self._rng.uniform(0, RENEWED_S), self._renews, host)
            self._clock.at(self._rng.uniform(0, SPARED_EVERY_S), self._spares, host)

    # Requests

    def _arrives(self, ask: Ask) -> None:
        entry = self._entry()
        request = Request(ask, int(entry[1:]) % len(self._rosters))
        self._place(request, entry, TRIES)

    def _entry(self) -> HostName:
        """A load balancer uses only hosts that are up."""
        while True:
            name = self._rng.choice(self._names)
            if self._hosts[name].is_up:
                return name

    def _place(self, request: Request, entry: HostName, tries: int) -> None:
        roster = self._rosters[request.group]
        roster.me = entry
        decision = self._policy.choose(request.ask, roster, self._clock.now)
        if isinstance(decision, Nowhere) or not tries:
            self.counters.refused += 1
        elif isinstance(decision, Load):
            self._clock.at(self._clock.now + STORE_S, self._claim, request, entry, decision, tries)
        else:
            self._send(request, entry, decision, tries)
        roster.me = HostName("")

    def _send(self, request: Request, entry: HostName, decision: Serve, tries: int) -> None:
        model, roster = request.ask.model.name, self._rosters[request.group]
        member = roster.hosts.get(decision.host)
        if member and model in member.residents and member.load(model) >= SLOTS:
            self._consider_one_more(model, roster, entry)
        self._reach(request, entry, decision.host, tries)

    def _reach(self, request: Request, entry: HostName, name: HostName, tries: int) -> None:
        host, model = self._hosts[name], request.ask.model.name
        roster = self._rosters[request.group]
        if not host.is_up:
            roster.suspect(name, self._clock.now)
            self._place(request, entry, tries - 1)
            return
        roster.sent(name, model)
        self._clock.at(self._clock.now + (HOP_S if name != entry else 0.0), self._reached, request, host)

    def _reached(self, request: Request, host: Host) -> None:
        if host.is_up:
            host.serve(request)
        else:
            self.counters.broken += 1

    # Claims

    def _claim(self, request: Request, entry: HostName, decision: Load, tries: int) -> None:
        claim = self._agreed(decision, entry, self._rosters[request.group])
        self._reach(request, entry, claim.host, tries)

    def _agreed(self, decision: Load, entry: HostName, roster: Roster) -> Claim:
        """The first claim wins."""
        key, now = key_of(decision.model, decision.replica), self._clock.now
        until, there = self._claims.get(key, (0.0, None))
        if there and now < until:
            self.counters.conflicts += 1
            return there
        claim = Claim(decision.model, decision.host, entry, decision.reason, decision.replica)
        self._claims[key] = (now + LEASE_S, claim)
        self.counters.claims += 1
        roster.apply(Bucket.CLAIMS, self._write(Bucket.CLAIMS, key, encoded(claim)), now)
        return claim

    def _consider_one_more(self, model: ModelName, roster: Roster, entry: HostName) -> None:
        found = one_more(model, roster, self._clock.now)
        if not found:
            return
        claim = self._agreed(found, entry, roster)
        host = self._hosts[claim.host]
        if claim.reason == found.reason and host.is_up:
            self._wanted.add((model, claim.host))
            host.load(self._models[model])

    def _take_back(self, host: Host) -> None:
        """Withdraw claims whose model is in the host's record now."""
        for held in self._rosters[0].claims.on_host(host.machine.name, self._clock.now):
            if held.key in self._claims and held.claim.model in host.shown:
                del self._claims[held.key]
                self._revision += 1
                self._tell(Bucket.CLAIMS, Removed(held.key, Revision(self._revision)))

    # Records

    def changed(self, host: Host) -> None:
        """On a change of phase, at most every 200 ms."""
        name = host.machine.name
        if not self._policy.is_fleet or name in self._due:
            return
        self._due.add(name)
        when = max(self._clock.now, self._published.get(name, 0.0) + AT_MOST_EVERY_S)
        self._clock.at(when, self._publishes, host)

    def _publishes(self, host: Host) -> None:
        self._due.discard(host.machine.name)
        if host.is_up:
            self._publish(host)

    def _renews(self, host: Host) -> None:
        if host.is_up and self._clock.now - self._published[host.machine.name] >= RENEWED_S:
            self._publish(host)
        self._clock.at(max(self._clock.now, self._published[host.machine.name]) + RENEWED_S, self._renews, host)

    def _publish(self, host: Host) -> None:
        value = encoded(host.record())
        self._published[host.machine.name] = self._clock.now
        self.counters.records += 1
        self.counters.record_bytes += len(value)
        self._write(Bucket.HOSTS, host.machine.name, value)
        self._take_back(host)

    def _write(self, bucket: Bucket, key: str, value: bytes) -> Written:
        self._revision += 1
        written = Written(key, value, Revision(self._revision))
        self._clock.at(self._clock.now + STORE_S, self._tell, bucket, written)
        return written

    def _tell(self, bucket: Bucket, change: Change) -> None:
        for roster in self._rosters:
            roster.apply(bucket, change, self._clock.now)

    def _spares(self, host: Host) -> None:
        roster = self._rosters[self._rng.randrange(len(self._rosters))]
        if host.is_up:
            roster.me = host.machine.name
            for spare in to_spare(roster, self._clock.now):
                host.unload(spare.model)
            roster.me = HostName("")
        self._clock.at(self._clock.now + SPARED_EVERY_S, self._spares, host)

    # Results of requests

    def granted(self, host: Host, request: Request) -> None:
        model, client, name = request.ask.model.name, request.ask.client, host.machine.name
        self.counters.waits.append(self._clock.now - request.ask.at)
        last = self._last.get(client)
        self.counters.could_come_back += last is not None
        self.counters.came_back_to += last == name
        self._last[client] = name
        self._rosters[request.group].note_load(name, model, host.in_line(model))

    def ended(self, host: Host, request: Request) -> None:
        model, name = request.ask.model.name, host.machine.name
        self.counters.served += 1
        self._rosters[request.group].came_back(name, model)
        self._rosters[request.group].note_load(name, model, host.in_line(model))

    def refused(self, host: Host, request: Request) -> None:
        self.counters.refused += 1
        self._rosters[request.group].came_back(host.machine.name, request.ask.model.name)

    def loads(self, host: Host, model: ModelName) -> None:
        self.counters.loads += 1
        if (model, host.machine.name) in self._wanted:
            self._wanted.discard((model, host.machine.name))
            self.counters.replicas += 1
        elif self._loading.get(model):
            self.counters.doubled += 1
        self._loading[model] = self._loading.get(model, 0) + 1

    def loaded(self, host: Host, model: ModelName) -> None:
        self._loading[model] -= 1

    # Failures

    def _fails(self, host: Host) -> None:
        name = host.machine.name
        for model in host.loading():
            self._loading[model] -= 1
        self.counters.broken += len(host.fail())
        self._clock.at(self._clock.now + LEASE_S, self._lapses, host)
        self._clock.at(self._clock.now + DOWN_S, self._comes_back, host)
        self._published[name] = self._clock.now

    def _lapses(self, host: Host) -> None:
        self._revision += 1
        self._tell(Bucket.HOSTS, Removed(host.machine.name, Revision(self._revision)))

    def _comes_back(self, host: Host) -> None:
        host.come_back()
        if self._policy.is_fleet:
            self._publish(host)

    def work(self) -> list[float]:
        """Seconds of service per GiB."""
        return [host.busy_s / host.machine.gib for host in self._hosts.values()]


def catalog_of(workload: Workload) -> CatalogRecord:
    return CatalogRecord(
        {
            model.name: Offer(
                memory={GPU: model.gib * GIB},
                load_s=model.load_s,
                labels={"site": model.site} if model.site else {},
                most=MOST_REPLICAS,
            )
            for model in workload.models
        }
    )


def simulate(name: str, workload: Workload, make: Maker) -> Figures:
    fleet = Fleet(workload, make)
    return figures(name, workload, fleet.run(), fleet.work())
