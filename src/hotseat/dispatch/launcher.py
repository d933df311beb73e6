"""What the dispatcher needs of whoever runs model servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hotseat.scheduling.commands import (
        PutToSleep,
        ReadAhead,
        RestoreConversations,
        SaveConversations,
        StartUpstream,
        StopUpstream,
        WakeUp,
    )
    from hotseat.scheduling.events import (
        ConversationsRestored,
        ConversationsSaved,
        SleepFailed,
        SlotsLearned,
        UpstreamAsleep,
        UpstreamAwake,
        UpstreamExited,
        UpstreamFailed,
        UpstreamReady,
        WakeFailed,
    )


class Launcher(Protocol):
    """Starts and stops servers. Each coroutine returns the next event."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed: ...
    async def watch(self, ready: UpstreamReady) -> UpstreamExited: ...

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None: ...

    async def stop(self, command: StopUpstream) -> None:
        """Return when none of its processes is left. Safe to call twice, and for an unknown launch."""

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def read_ahead(self, command: ReadAhead) -> None:
        """Return when all is read or the model starts; may be cancelled."""
