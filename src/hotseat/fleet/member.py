"""PURE: one host as another one knows it: what it said of itself, what was sent there since, and whether it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from hotseat.fleet.records import HostRecord, Residence
    from hotseat.fleet.store import Revision
    from hotseat.identifiers import Bytes, DeviceName, HostName, Instant, ModelName, Seconds

READY, LOADING, COLD, ASLEEP, RESTING = "ready", "loading", "cold", "asleep", "resting"
COMING = (LOADING, COLD, ASLEEP)
"""Who sends a request there need not ask anybody; best first. A cold model is mentioned while somebody waits for it."""
LEAVING = ("draining", "unloading")
UNKNOWN_SLOTS = 8
"""As the scheduler counts a server of unknown capacity while others wait."""
SHUN_S: Seconds = 2.0
LONGEST_SHUN_S: Seconds = 60.0
NEVER: Instant = float("-inf")


@dataclass(slots=True)
class Member:
    name: HostName
    record: HostRecord
    revision: Revision
    heard_at: Instant
    residents: dict[ModelName, Residence] = field(default_factory=dict)
    refusals: int = 0
    """Connections refused in a row."""
    shunned_until: Instant = NEVER
    waited_for: list[ModelName] = field(default_factory=list)
    """Models that will need room and have no process yet."""
    resting: list[ModelName] = field(default_factory=list)
    """Models that failed there a moment ago."""
    ladders: dict[DeviceName, list[tuple[Bytes, float]]] = field(default_factory=dict)
    """What room of a device costs at most, as load_cost.py reckoned it last; forgotten whenever more is known."""
    ladders_until: Instant = NEVER
    _loads: dict[ModelName, int] = field(default_factory=dict)
    """Requests that use or want a model there, as far as more is known of them than the record says."""
    _underway: dict[ModelName, int] = field(default_factory=dict)
    """Ours among them, since this boot."""

    def hear(self, record: HostRecord, revision: Revision, now: Instant) -> None:
        """It said something new. What it says of its load counts ours that have arrived."""
        if record.boot != self.record.boot:
            self._underway.clear()
            self.refusals, self.shunned_until = 0, NEVER
        elif self.refusals <= 1:
            # It lives. One that refuses again and again lives too, but cannot be reached from here.
            self.shunned_until = NEVER
        self.record, self.revision, self.heard_at = record, revision, now
        self.residents = {residence.model: residence for residence in record.residents}
        self.waited_for = [residence.model for residence in record.residents if residence.phase == COLD]
        self.resting = [residence.model for residence in record.residents if residence.phase == RESTING]
        self._loads.clear()
        self.ladders_until = NEVER

    def has(self, model: ModelName) -> bool:
        """Is it there, or on its way?"""
        residence = self.residents.get(model)
        return residence is not None and (residence.phase == READY or residence.phase in COMING)

    def is_asleep(self, model: ModelName) -> bool:
        residence = self.residents.get(model)
        return residence is not None and residence.phase == ASLEEP

    def fail(self, model: ModelName) -> None:
        """It could not be started there, as an answer says; what the next record says counts more."""
        if model not in self.resting:
            self.resting.append(model)
        if known := self.residents.get(model):
            self.residents[model] = replace(known, phase=RESTING)

    # What is known of its load

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

    def told(self, model: ModelName, load: int) -> None:
        """An answer said how many requests use or want the model there, its own included."""
        self._loads[model] = load
        self.ladders_until = NEVER
        self.refusals, self.shunned_until = 0, NEVER

    def came_back(self, model: ModelName) -> None:
        """One that was sent is over. One that was sent to an earlier life of this host says nothing about this one."""
        left = self._underway.get(model, 0) - 1
        if left < 0:
            return
        self._loads[model] = max(0, self.load(model) - 1)
        self.ladders_until = NEVER
        if left:
            self._underway[model] = left
        else:
            del self._underway[model]

    # Whether it answers

    def refuse(self, now: Instant) -> None:
        self.refusals += 1
        self.shunned_until = now + min(LONGEST_SHUN_S, SHUN_S * 2 ** min(self.refusals - 1, 10))

    def is_shunned(self, now: Instant) -> bool:
        return now < self.shunned_until

    # How long ago

    def unused_s(self, residence: Residence, now: Instant) -> Seconds:
        return residence.idle_s + max(0.0, now - self.heard_at)
