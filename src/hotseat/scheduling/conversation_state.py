"""What is known of the conversations of one model: which step is in progress, and what was measured.

The rates, and how many of the restored conversations were continued, say whether keeping them works.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.identifiers import Seconds, TicketId
    from hotseat.scheduling.events import PromptProcessed, Transfer

TRIES = 3
"""Starts in a row after which no restored conversation was reused: then it is not tried again."""
NOT_REUSED = "its server restores conversations but does not reuse them, so they are not saved any more"
DIED = "its server exited while conversations were restored, so they are not saved any more"
FRESH = 0.3
"""Weight of the newest measurement."""
LEAST_SAMPLE = 64
"""Shorter prompts say little about a rate."""
REMEMBERED = 0.9
"""Weight of what was seen before the last stop."""
SAME = 0.9
"""Share of an earlier prompt and its answer from which on a prompt continues that one."""
REUSED = 0.5
"""Share of a restored conversation from which on it counts as reused: templates may render its last turn anew."""
MOST_OWN = 256
"""Own conversations of a server that are remembered: it has fewer in its memory."""
USUAL_COMPUTE_RATE = 1_000.0
USUAL_TRANSFER_RATE = 2e9
USUAL_TOKEN_SIZE = 10e3
"""Until they are measured: optimistic, so that they are."""
MOST = 1e15
"""Larger stored figures are corrupt and ignored."""


class ConversationState(Struct):
    is_saving: bool = False
    """They are being saved before its server is stopped."""
    has_saved: bool = False
    """Some were saved since hotseat started."""
    restored: Restored | None = None
    """What was restored into its current process; None: nothing."""
    longest: int | None = None
    """Tokens of the longest one that its current process has reported; None: it has reported none."""
    reported: set[TicketId] = field(default_factory=set)
    """Leases whose prompt was reported."""
    has_unreported: bool = False
    """Its current process has had requests that it reported nothing about: any of them may be the longest."""
    useless_restores: int = 0
    """Starts in a row after which no restored conversation was reused."""
    keeps_none_because: str = ""
    """Why they are not saved any more; empty: they are. Cleared like `ModelState.failed_levels`."""

    def are_shorter_than(self, tokens: int) -> bool:
        """Are all of them known to be?"""
        return self.longest is not None and self.longest < tokens and not self.has_unreported

    def note_prompt(self, stats: ConversationStats, prompt: PromptProcessed) -> None:
        """Learn how fast its server computes, and whether what was restored is reused."""
        stats.computed(prompt.computed, prompt.took_s)
        tokens = prompt.computed + prompt.cached
        self.longest = max(self.longest or 0, tokens + prompt.generated)
        self.reported.add(prompt.ticket)
        if self.restored and (reused := self.restored.note(prompt.cached, tokens, prompt.generated)):
            stats.was_reused(reused)

    def note_end_of_lease(self, ticket: TicketId) -> None:
        """A client that hangs up gets no report, but its prompt may have been computed."""
        if ticket in self.reported:
            self.reported.remove(ticket)
        else:
            self.has_unreported = True

    def note_exit(self, stats: ConversationStats) -> None:
        """No process is left. Stop trying if no restored conversation was reused, start after start."""
        restored, self.restored = self.restored, None
        self.is_saving, self.longest, self.has_unreported = False, None, False
        self.reported.clear()
        stats.has_stopped()
        if restored is None or not (restored.reused or restored.missed):
            return
        self.useless_restores = self.useless_restores + 1 if restored.was_useless else 0
        if self.useless_restores >= TRIES:
            self.keeps_none_because = NOT_REUSED

    def forgive(self) -> None:
        """Try again, for an operator's load or a changed configuration."""
        self.useless_restores = 0
        self.keeps_none_because = ""


class ConversationStats(Struct):
    compute_rate: float = 0.0
    """Tokens of a prompt that are computed in a second; 0: unknown, as in all rates."""
    save_rate: float = 0.0
    """Bytes per second."""
    slow_save_rate: float = 0.0
    """Bytes per second, guessed because the last save was not finished in time; grows with each stop."""
    restore_rate: float = 0.0
    """Bytes per second."""
    token_size: float = 0.0
    """Bytes of one token on disk."""
    save_s: Seconds = 0.0
    """How long saving all that was worth it took."""
    chances: float = 0.0
    """Restored conversations, weighted towards the newest stops."""
    returns: float = 0.0
    """Those of them that were continued."""
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
            self.slow_save_rate = 0.0
        self.save_s = _smoothed(self.save_s, took_s)

    def was_too_slow(self, unfinished: Transfer) -> None:
        """It took longer than expected, so that less is tried the next times."""
        size = unfinished.tokens * (self.token_size or USUAL_TOKEN_SIZE)
        guess = size / max(unfinished.took_s, 1e-6) / 2
        self.slow_save_rate = min(guess, self.save_rate or guess)

    def was_restored(self, transfers: Iterable[Transfer]) -> None:
        for each in transfers:
            self.restored += 1
            self.chances += 1
            self.restore_rate = _smoothed(self.restore_rate, each.size / max(each.took_s, 1e-6))

    def was_reused(self, tokens: int) -> None:
        self.reused += 1
        self.returns += 1
        self.gained_s += tokens / self.compute_rate if self.compute_rate else 0.0

    def has_stopped(self) -> None:
        """What was long ago counts less, so that a model whose conversations are not saved is tried again."""
        self.chances *= REMEMBERED
        self.returns *= REMEMBERED
        self.slow_save_rate /= REMEMBERED
        if self.slow_save_rate > (self.save_rate or USUAL_TRANSFER_RATE):
            self.slow_save_rate = 0.0

    @property
    def probability_of_return(self) -> float:
        """The share of restored conversations that were continued; one half while nothing is known."""
        return (self.returns + 1) / (self.chances + 2)

    def export(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def adopt(cls, plain: Mapping[str, object]) -> ConversationStats:
        """What an earlier run exported; invalid figures are ignored."""
        stats = cls()
        for name, unknown in asdict(stats).items():
            value = plain.get(name)
            if isinstance(value, (int, float)) and isfinite(value) and 0 <= value <= MOST:
                setattr(stats, name, type(unknown)(value))
        return stats


def _smoothed(known: float, newest: float) -> float:
    return known + FRESH * (newest - known) if known else newest


class Restored(Struct):
    """The conversations that were restored into the current server of a model."""

    unproven: list[int]
    """Tokens of each that no prompt has reused so far."""
    own: list[int] = field(default_factory=list)
    """Tokens of the last conversations that this server has had itself, sorted."""
    latest: deque[int] = field(default_factory=deque)
    """The same in the order of time."""
    reused: int = 0
    missed: int = 0
    """Prompts long enough to continue one that did not."""

    def note(self, cached: int, prompt: int, answer: int) -> int:
        """The tokens of the restored conversation that a prompt has reused; 0: none."""
        is_own = self._continues_own(cached)
        found = 0 if is_own else max((tokens for tokens in self.unproven if cached >= REUSED * tokens), default=0)
        if found:
            self.unproven.remove(found)
            self.reused += 1
        elif not is_own and self.unproven and prompt >= min(self.unproven):
            self.missed += 1
        insort(self.own, prompt + answer)
        self.latest.append(prompt + answer)
        if len(self.latest) > MOST_OWN:
            del self.own[bisect_left(self.own, self.latest.popleft())]
        return min(found, cached)

    def _continues_own(self, cached: int) -> bool:
        """Whether an earlier prompt of this server explains the cached tokens."""
        place = bisect_left(self.own, cached)
        if place == len(self.own) or SAME * self.own[place] > cached:
            return False
        self.latest.remove(self.own.pop(place))
        return True

    @property
    def was_useless(self) -> bool:
        """Some prompts could have continued a restored conversation, and none did."""
        return self.missed > 0 and not self.reused
