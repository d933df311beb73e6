"""The claims of models that requests wait for and that are not loaded, sorted by age.

A claim starts with the model's oldest ticket, but not before the model's last turn ended, so that models rotate.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Instant, ModelName, TicketId


LOOKED_AT = 16
"""Only this many claims, the oldest, are examined: a decision must not take longer than a request."""


class Claim(NamedTuple):
    """Sorts by age of the claim, then of the ticket."""

    since: Instant
    oldest: Instant
    """When the model's oldest waiting request arrived."""
    ticket: TicketId
    """The oldest ticket; orders claims with equal times."""
    model: ModelName
    is_batch: bool = False
    """Only batch requests wait for it, so it is less urgent."""


class Claims:
    def __init__(self) -> None:
        self._in_order: list[Claim] = []
        self._of: dict[ModelName, Claim] = {}

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._in_order)

    def first(self, most: int) -> list[Claim]:
        return self._in_order[:most]

    def of(self, model: ModelName) -> Claim | None:
        return self._of.get(model)

    def put(self, claim: Claim) -> None:
        if self._of.get(claim.model) != claim:
            self.drop(claim.model)
            self._of[claim.model] = claim
            insort(self._in_order, claim)

    def drop(self, model: ModelName) -> None:
        claim = self._of.pop(model, None)
        if claim is not None:
            del self._in_order[bisect_left(self._in_order, claim)]
