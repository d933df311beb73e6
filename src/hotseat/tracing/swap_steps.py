"""The steps of recent swaps, from the journal: when each began and ended, and why it was taken."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hotseat.scheduling.commands import (
    PutToSleep,
    ReportSwap,
    RestoreConversations,
    SaveConversations,
    StartUpstream,
    StopUpstream,
    WakeUp,
)
from hotseat.scheduling.events import (
    ConversationsRestored,
    ConversationsSaved,
    ServerAdopted,
    SleepFailed,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    WakeFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, LaunchId, ModelName
    from hotseat.scheduling.commands import Evicted
    from hotseat.scheduling.events import Event

KEPT = 32
"""Steps per model. While a request is served, its model is not loaded again, so that few are enough."""

Beginning: TypeAlias = SaveConversations | StopUpstream | PutToSleep | StartUpstream | WakeUp | RestoreConversations
Ending: TypeAlias = (
    ConversationsSaved
    | UpstreamExited
    | UpstreamAsleep
    | SleepFailed
    | UpstreamReady
    | UpstreamFailed
    | UpstreamAwake
    | WakeFailed
    | ConversationsRestored
)
BEGUN_BY: Final[dict[type[Beginning], str]] = {
    SaveConversations: "save",
    StopUpstream: "stop",
    PutToSleep: "sleep",
    StartUpstream: "start",
    WakeUp: "wake",
    RestoreConversations: "restore",
}
ENDED_BY: Final[dict[type[Ending], str]] = {
    ConversationsSaved: "save",
    UpstreamExited: "stop",
    UpstreamAsleep: "sleep",
    SleepFailed: "sleep",
    UpstreamReady: "start",
    UpstreamFailed: "start",
    UpstreamAwake: "wake",
    WakeFailed: "wake",
    ConversationsRestored: "restore",
}
FAILURES = (SleepFailed, UpstreamFailed, WakeFailed)
LEAVING = frozenset(("save", "stop", "sleep"))
"""What is done to a model that must free its memory; the other steps are taken for the model that is wanted."""


class Step(NamedTuple):
    name: str
    model: ModelName
    reason: str
    began: Instant
    ended: Instant
    has_failed: bool = False


class _Begun(NamedTuple):
    model: ModelName
    reason: str
    at: Instant


class SwapSteps:
    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self._begun: dict[LaunchId, dict[str, _Begun]] = {}
        """Of servers that have not ended."""
        self._ready_at: dict[ModelName, Instant] = {}
        self._leaving: defaultdict[ModelName, deque[Step]] = defaultdict(lambda: deque(maxlen=KEPT))
        """What was done to each model since it was last ready."""
        self._steps: defaultdict[ModelName, deque[Step]] = defaultdict(lambda: deque(maxlen=KEPT))
        """What was done for each model, whichever model it was done to."""

    def watch(self, entry: Entry) -> None:
        """A listener of the journal."""
        now = self._clock()
        for command in entry.commands:
            if isinstance(command, ReportSwap):  # it is about what was done before
                self._note_evictions(command)
        self._note_event(entry.event, now)
        for command in entry.commands:
            if isinstance(command, Beginning):
                begun = self._begun.setdefault(command.launch, {})
                begun[BEGUN_BY[type(command)]] = _Begun(command.model, command.reason, now)

    def _note_event(self, event: Event, now: Instant) -> None:
        match event:
            case UpstreamReady() | UpstreamAwake() | ConversationsRestored():
                self._end(event, now)
                self._note_ready(event.model, now)
            case ConversationsSaved() | UpstreamAsleep() | SleepFailed() | WakeFailed():
                self._end(event, now)
            case UpstreamExited() | UpstreamFailed():
                self._end(event, now)
                self._begun.pop(event.launch, None)
            case ServerAdopted():
                self._note_ready(event.model, now - event.ready_s)

    def of_wait(self, model: ModelName, began: Instant, until: Instant) -> list[Step]:
        """The steps taken for this model that a request waited for from `began` until `until`, in order."""
        steps = [step for step in self._steps.get(model, ()) if step.ended >= began and step.began <= until]
        return sorted(steps, key=lambda step: step.began)

    def _note_ready(self, model: ModelName, at: Instant) -> None:
        self._ready_at[model] = at
        self._leaving.pop(model, None)

    def _end(self, event: Ending, now: Instant) -> None:
        """Unknown steps began in an earlier process, or were not taken: a server that crashed was not stopped.

        A step can end after its server, of which nothing may be kept then.
        """
        name = ENDED_BY[type(event)]
        begun = self._begun.get(event.launch, {}).pop(name, None)
        if begun is None:
            return
        step = Step(name, begun.model, begun.reason, begun.at, now, isinstance(event, FAILURES))
        if name in LEAVING:
            self._leaving[begun.model].append(step)
        else:
            self._steps[begun.model].append(step)

    def _note_evictions(self, swap: ReportSwap) -> None:
        for went in swap.evicted:
            self._steps[swap.model].extend(self._left(went))

    def _left(self, went: Evicted) -> list[Step]:
        """The drain has no command of its own: it begins with the eviction and ends with the first step after it."""
        steps, ready_at = list(self._leaving.get(went.model, ())), self._ready_at.get(went.model)
        if not steps or ready_at is None:
            return steps
        began = min(ready_at + went.age_s, steps[0].began)
        return [Step("drain", went.model, went.reason, began, steps[0].began), *steps]
