"""What is measured of the conversations of one model: rates, and how many of the restored ones were continued."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.identifiers import Seconds
    from hotseat.scheduling.events import Transfer

FRESH = 0.3
"""Weight of the newest measurement."""
LEAST_SAMPLE = 64
"""Shorter prompts say little about a rate."""
REUSED = 0.5
"""Share of a restored conversation from which on it counts as reused: templates may render its last turn anew."""
MOST = 1e15
"""Larger stored figures are corrupt and ignored."""


@dataclass(slots=True)
class ConversationStats:
    compute_rate: float = 0.0
    """Tokens of a prompt that are computed in a second; 0: unknown, as in all rates."""
    save_rate: float = 0.0
    """Bytes per second."""
    restore_rate: float = 0.0
    """Bytes per second."""
    token_size: float = 0.0
    """Bytes of one token on disk."""
    save_s: Seconds = 0.0
    """How long saving all that was worth it took."""
    saved: int = 0
    restored: int = 0
    reused: int = 0
    gained_s: Seconds = 0.0
    """Time that clients would have waited for prompts to be computed again."""

    def computed(self, tokens: int, took_s: Seconds) -> None:
        if tokens >= LEAST_SAMPLE and took_s > 0.0:
            self.compute_rate = _smoothed(self.compute_rate, tokens / took_s)

    def was_saved(self, transfers: Iterable[Transfer]) -> None:
        took_s = 0.0
        for each in transfers:
            self.saved += 1
            took_s += each.took_s
            self.save_rate = _smoothed(self.save_rate, each.size / max(each.took_s, 1e-6))
            self.token_size = each.size / max(each.tokens, 1)
        self.save_s = _smoothed(self.save_s, took_s)

    def was_too_slow(self, unfinished: Transfer, guessed_size: float) -> None:
        """It took longer than expected, so that less is tried the next time."""
        size = unfinished.tokens * (self.token_size or guessed_size)
        self.save_rate = _smoothed(self.save_rate, size / max(unfinished.took_s, 1e-6) / 2)

    def was_restored(self, transfers: Iterable[Transfer]) -> None:
        for each in transfers:
            self.restored += 1
            self.restore_rate = _smoothed(self.restore_rate, each.size / max(each.took_s, 1e-6))

    def was_reused(self, tokens: int) -> None:
        self.reused += 1
        self.gained_s += tokens / self.compute_rate if self.compute_rate else 0.0

    @property
    def probability_of_return(self) -> float:
        """The share of restored conversations that were continued; one half while nothing is known."""
        return (self.reused + 1) / (self.restored + 2)

    def export(self) -> dict[str, float]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def adopt(cls, plain: Mapping[str, object]) -> ConversationStats:
        """What an earlier run exported; invalid figures are ignored."""
        stats = cls()
        for each in fields(cls):
            value = plain.get(each.name)
            if isinstance(value, (int, float)) and isfinite(value) and 0 <= value <= MOST:
                setattr(stats, each.name, int(value) if isinstance(each.default, int) else float(value))
        return stats


def _smoothed(known: float, newest: float) -> float:
    return known + FRESH * (newest - known) if known else newest


@dataclass(slots=True)
class Restored:
    """The conversations that were restored into the current server of a model."""

    unproven: list[int]
    """Tokens of each that no prompt has reused so far."""
    prompts: int = 0
    """Prompts since the start."""
    reused: int = 0

    def reused_by(self, cached: int) -> int:
        """The tokens of the conversation that a prompt has reused; 0: none."""
        self.prompts += 1
        found = max((tokens for tokens in self.unproven if cached >= REUSED * tokens), default=0)
        if found:
            self.unproven.remove(found)
            self.reused += 1
        return min(found, cached)

    @property
    def was_useless(self) -> bool:
        """There were prompts, and none of them continued a restored conversation."""
        return bool(self.unproven) and self.prompts > 0 and not self.reused
