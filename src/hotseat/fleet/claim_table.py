"""PURE: load claims received from the store, by model and by chosen host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from hotseat.fleet.records import STOPS
from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hotseat.fleet.records import Claim
    from hotseat.fleet.store import Revision
    from hotseat.identifiers import HostName, Instant, ModelName, Seconds

CLAIM_S: Seconds = LEASE_S
"""How long a received claim counts, since the store may be unable to report its end."""
SETTLING_S: Seconds = 2.0
"""A withdrawn claim counts a little longer: the record that shows the model on its host travels separately and may
arrive later."""

K1 = TypeVar("K1")
K2 = TypeVar("K2")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Held:
    key: str
    claim: Claim
    revision: Revision
    until: Instant


class ClaimTable:
    def __init__(self, is_fulfilled: Callable[[Claim], bool]) -> None:
        """A claim `is_fulfilled` once its host has acted on it."""
        self._is_fulfilled = is_fulfilled
        self._all: dict[str, Held] = {}
        self._for_model: dict[ModelName, dict[str, Held]] = {}
        self._on_host: dict[HostName, dict[str, Held]] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(self._all.values())

    def has(self, key: str, claim: Claim) -> bool:
        return key in self._all and self._all[key].claim == claim

    def put(self, held: Held) -> None:
        self.drop(held.key)
        self._all[held.key] = held
        self._for_model.setdefault(held.claim.model, {})[held.key] = held
        self._on_host.setdefault(held.claim.host, {})[held.key] = held

    def drop(self, key: str) -> None:
        held = self._all.pop(key, None)
        if held is not None:
            take(self._for_model, held.claim.model, key)
            take(self._on_host, held.claim.host, key)

    def let_go(self, key: str, now: Instant) -> None:
        """It was withdrawn, or its lease has ended."""
        held = self._all.get(key)
        if held is None:
            return
        if self._is_fulfilled(held.claim):
            self.drop(key)
        else:
            self.put(replace(held, until=min(held.until, now + SETTLING_S)))

    def fulfilled(self, by: HostName, now: Instant) -> list[Held]:
        """Claims made by this host whose host has the model by now: they can be withdrawn."""
        # Nobody may ask for these models and hosts again, so claims that are over are dropped here.
        loads = [held for held in self._living(self._all, now) if held.claim.by == by and held.claim.replica != STOPS]
        return [held for held in loads if self._is_fulfilled(held.claim)]

    def for_model(self, model: ModelName, now: Instant) -> list[Held]:
        """Claims to load this model that may not have been acted on."""
        return self._living(self._for_model.get(model, {}), now)

    def on_host(self, host: HostName, now: Instant) -> list[Held]:
        """Claims to load models on this host that may not have been acted on."""
        return self._living(self._on_host.get(host, {}), now)

    def _living(self, some: Mapping[str, Held], now: Instant) -> list[Held]:
        if not some:
            return []
        for held in [held for held in some.values() if held.until <= now]:
            self.drop(held.key)
        return list(some.values())


def take(lists: dict[K1, dict[K2, V]], key: K1, entry: K2) -> None:
    """Remove one entry, and the list once it is empty."""
    entries = lists[key]
    del entries[entry]
    if not entries:
        del lists[key]
