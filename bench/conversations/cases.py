"""What is measured: models and slots, and conversations as long as people wait for."""

from __future__ import annotations

from dataclasses import dataclass

from bench.swap.sides import BIG, TINY

IDLE = ("LLAMA_ARG_CACHE_IDLE_SLOTS=0",)
"""Automatic slots keep idle conversations, which otherwise leave for the server's cache in RAM and cannot be saved."""


@dataclass(frozen=True, slots=True)
class Case:
    model: str
    slots: str
    options: str
    tokens: int
    """Of the first message."""
    talks: int = 1
    """Conversations that return one after the other."""
    env: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.model}-{self.slots}"

    @property
    def title(self) -> str:
        size = "1.6 GB" if self.is_big else "6.7 MB"
        return f"{size}, {SLOTS[self.slots]}, {self.talks} × {self.tokens:,} tokens"

    @property
    def is_big(self) -> bool:
        return self.model == BIG


SLOTS = {"1": "1 slot", "4": "4 slots", "auto": "automatic slots", "idle": "automatic slots that stay"}
CASES = {
    case.name: case
    for case in (
        Case(TINY, "1", "-np 1", 6_000),
        Case(TINY, "4", "-np 4 -c 32768", 6_000, talks=3),  # each slot has a quarter of the context
        Case(TINY, "auto", "", 6_000),
        Case(TINY, "idle", "-c 32768", 6_000, talks=3, env=IDLE),
        Case(BIG, "1", "-np 1", 2_600),
        Case(BIG, "4", "-np 4 -c 16384", 2_600),
        Case(BIG, "auto", "", 2_600),
    )
}
SHORT = Case(TINY, "auto", "", 10)
"""A conversation that is not worth saving."""
MANY = Case(TINY, "4", "-np 4", 0, talks=4)
"""Many conversations, whose answers are compared."""
