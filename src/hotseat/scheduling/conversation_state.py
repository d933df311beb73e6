"""What is known of the conversations of one model: which step is in progress, and whether keeping them works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from hotseat.identifiers import TicketId
    from hotseat.scheduling.conversation_stats import ConversationStats, Restored
    from hotseat.scheduling.events import PromptProcessed

TRIES = 3
"""Starts in a row after which no restored conversation was reused: then it is not tried again."""

NOT_REUSED = "its server restores conversations but does not reuse them, so they are not saved any more"
DIED = "its server exited while conversations were restored, so they are not saved any more"


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
