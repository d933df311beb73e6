"""The claims of missing models that somebody waits for, oldest first, kept in order as they come and go.

A claim begins with the model's oldest ticket, but not before its own last turn ended: so models rotate.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Instant, ModelName, TicketId


class Claim(NamedTuple):
    """Compared field by field: the older claim goes first, then the older ticket."""

    since: Instant
    oldest: Instant
    """When the first of those waiting came."""
    ticket: TicketId
    """Whose it is: of two that came in the same moment, the first."""
    model: ModelName


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
        """A claim in place of what this model claimed before."""
        if self._of.get(claim.model) != claim:
            self.drop(claim.model)
            self._of[claim.model] = claim
            insort(self._in_order, claim)

    def drop(self, model: ModelName) -> None:
        claim = self._of.pop(model, None)
        if claim is not None:
            del self._in_order[bisect_left(self._in_order, claim)]
