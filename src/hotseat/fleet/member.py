"""PURE: one host as seen by another: its record, the requests sent to it since, and whether it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.catalog.template import address_of
from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from hotseat.fleet.records import HostRecord, Residence
    from hotseat.fleet.store import Revision
    from hotseat.identifiers import Address, Bytes, DeviceName, HostName, Instant, ModelName, Seconds

READY, LOADING, COLD, ASLEEP, BACKOFF = "ready", "loading", "cold", "asleep", "backoff"
COMING = (LOADING, COLD, ASLEEP)
"""A request can go there without agreement; best first. A cold model is listed while requests wait for it."""
LEAVING = ("draining", "unloading")
UNKNOWN_SLOTS = 8
"""The scheduler's assumption for a server of unknown capacity while others wait."""
SHUN_S: Seconds = 2.0
LONGEST_SHUN_S: Seconds = LEASE_S
"""After the end of a fault the host is used again as soon as one that was away would be."""
NEVER: Instant = float("-inf")


@dataclass(frozen=True, slots=True)
class PathState:
    """What came of a question to a host, at the address that requests use."""

    problem: str = ""
    """Why it did not answer; empty: it did."""
    certificate_ends: float | None = None
    """POSIX time; None: unknown, or no TLS."""
    clock_ahead_s: Seconds | None = None
    """Of ours; None: unknown. Whole seconds."""


@dataclass(slots=True)
class Member:
    name: HostName
    record: HostRecord
    revision: Revision
    received_at: Instant
    address: Address = field(init=False)
    """The same object for the same URL, since request caches use it as key."""
    residents: dict[ModelName, Residence] = field(default_factory=dict)
    refusals: int = 0
    """Connections refused or broken, and questions unanswered, one after the other."""
    shunned_until: Instant = NEVER
    problem: str = ""
    """Why it is shunned; empty: it did not say, or does not exist any more."""
    path: PathState = PathState()
    """The last answer."""
    waited_for: list[ModelName] = field(default_factory=list)
    """Models that will need memory and have no process yet."""
    backing_off: list[ModelName] = field(default_factory=list)
    """Models that failed there recently."""
    ladders: dict[DeviceName, list[tuple[Bytes, float]]] = field(default_factory=dict)
    """Upper bounds of memory prices per device, cached by load_cost.py; dropped whenever new data arrives."""
    ladders_until: Instant = NEVER
    _loads: dict[ModelName, int] = field(default_factory=dict)
    """Requests that use or want a model there, where something newer than the record is known."""
    _underway: dict[ModelName, int] = field(default_factory=dict)
    """Our requests among them, since this boot."""

    def __post_init__(self) -> None:
        self.address = address_of(self.record.address)

    def update(self, record: HostRecord, revision: Revision, now: Instant) -> None:
        """Apply a new record. Its load figures include our requests that have arrived."""
        if record.boot != self.record.boot:
            self._underway.clear()
            self.answer()
        elif self.refusals <= 1:
            # The host is alive. One that refuses repeatedly may be alive too, but is unreachable from here.
            self.shunned_until = NEVER
        if record.address != self.record.address:
            self.address = address_of(record.address)
        self.record, self.revision, self.received_at = record, revision, now
        self.residents = {residence.model: residence for residence in record.residents}
        self.waited_for = [residence.model for residence in record.residents if residence.phase == COLD]
        self.backing_off = [residence.model for residence in record.residents if residence.phase == BACKOFF]
        self._loads.clear()
        self.ladders_until = NEVER

    def has(self, model: ModelName) -> bool:
        """Is the model there, or about to be?"""
        residence = self.residents.get(model)
        return residence is not None and (residence.phase == READY or residence.phase in COMING)

    def is_running(self, model: ModelName) -> bool:
        """Does it have a process?"""
        residence = self.residents.get(model)
        return residence is not None and residence.phase in (READY, LOADING, ASLEEP)

    def is_asleep(self, model: ModelName) -> bool:
        residence = self.residents.get(model)
        return residence is not None and residence.phase == ASLEEP

    def is_loading(self, model: ModelName) -> bool:
        residence = self.residents.get(model)
        return residence is not None and residence.phase == LOADING

    def still_serves(self, model: ModelName) -> bool:
        """Does it serve the model until another host does, if it is drained?"""
        is_ready = model in self.residents and self.residents[model].phase == READY
        return is_ready and model not in self.record.released

    def fail(self, model: ModelName) -> None:
        """A response reported that the model could not start there; the next record overrides this."""
        if model not in self.backing_off:
            self.backing_off.append(model)
        if known := self.residents.get(model):
            self.residents[model] = replace(known, phase=BACKOFF)

    # Load

    def load(self, model: ModelName) -> int:
        known = self._loads.get(model)
        return known if known is not None else self._recorded(model)

    def load_per_slot(self, model: ModelName) -> float:
        return self.load(model) / self.slots(model)

    def slots(self, model: ModelName) -> int:
        residence = self.residents.get(model)
        return (residence.slots if residence else 0) or UNKNOWN_SLOTS

    def _recorded(self, model: ModelName) -> int:
        residence = self.residents.get(model)
        return residence.in_flight + residence.waiting if residence else 0

    def sent(self, model: ModelName) -> None:
        self._loads[model] = self.load(model) + 1
        self._underway[model] = self._underway.get(model, 0) + 1

    def note_load(self, model: ModelName, load: int) -> None:
        """A response reported how many requests use or want the model there, including its own."""
        self._loads[model] = load
        self.ladders_until = NEVER
        self.answer()

    def came_back(self, model: ModelName) -> None:
        """A request we sent is over. One that was sent before the host restarted does not count."""
        left = self._underway.get(model, 0) - 1
        if left < 0:
            return
        self._loads[model] = max(0, self.load(model) - 1)
        self.ladders_until = NEVER
        if left:
            self._underway[model] = left
        else:
            del self._underway[model]

    # Reachability

    def refuse(self, now: Instant, problem: str = "") -> None:
        self.refusals, self.problem = self.refusals + 1, problem
        self.shunned_until = now + min(LONGEST_SHUN_S, SHUN_S * 2 ** min(self.refusals - 1, 10))

    def answer(self) -> None:
        self.refusals, self.shunned_until = 0, NEVER

    def is_shunned(self, now: Instant) -> bool:
        return now < self.shunned_until

    def unused_s(self, residence: Residence, now: Instant) -> Seconds:
        return residence.idle_s + max(0.0, now - self.received_at)
