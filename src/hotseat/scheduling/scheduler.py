"""The scheduler: `handle(event, now)` returns the commands that follow from an event.

One small handler per event updates the state; then `settle` checks all models. Two events happen ten thousand times a
second: a request whose model is ready, and a request that ends while none waits. They are handled first and skip
`settle`, because they cannot affect other requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

from hotseat.catalog.spec import NOTHING
from hotseat.errors import Busy, LoadFailed, NotRunning, ShuttingDown, Unloaded, Unresponsive
from hotseat.scheduling import conversations, handover_transitions
from hotseat.scheduling.catalog_change import change_catalog, follow_catalog, removed
from hotseat.scheduling.commands import Cause, Confirm, Grant, WakeAt
from hotseat.scheduling.conversation_state import DIED
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    ConversationsRestored,
    ConversationsSaved,
    DevicesChanged,
    Event,
    FleetModelsChanged,
    HandoverCancelled,
    HandoverCompleted,
    HandoverReceived,
    HandoverRequested,
    KeepAliveChanged,
    LoadRequested,
    MemoryMeasured,
    OverridesChanged,
    ProfileChanged,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    ServerAdopted,
    ShutdownRequested,
    SleepFailed,
    SlotsLearned,
    UnloadRequested,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    UpstreamUnresponsive,
    WakeFailed,
    YieldEnded,
    YieldRequested,
)
from hotseat.scheduling.lifecycle import Move, Phase
from hotseat.scheduling.loss import NEVER
from hotseat.scheduling.memory_pressure import note_devices, note_measured
from hotseat.scheduling.questions import Questions
from hotseat.scheduling.queue import RequestKind, Ticket
from hotseat.scheduling.settle import settle
from hotseat.scheduling.slots import serves_at_once
from hotseat.scheduling.state import State
from hotseat.scheduling.transitions import Transitions
from hotseat.scheduling.wait_reasons import newcomer_waits_s

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import (
        ClientId,
        Instant,
        MeasuredMemory,
        ModelName,
        Seconds,
        TicketId,
        Upstream,
    )
    from hotseat.scheduling.commands import Command

AboutSleep: TypeAlias = UpstreamAsleep | UpstreamAwake | SleepFailed | WakeFailed
LONGEST_RETRY_S: Seconds = 60.0
SHUTTING_DOWN = "hotseat is shutting down. Try again in a moment."
# Bound once: in Python 3.11 looking up an enum member takes as long as a call.
READY, USE, READ = Phase.READY, RequestKind.USE, RequestKind.READ


class Scheduler(Questions):
    def __init__(self, catalog: Catalog, measured: MeasuredMemory = NOTHING) -> None:
        """`measured` is what earlier runs measured."""
        super().__init__(State(catalog, measured))
        self._wake: Instant = NEVER

    def handle(self, event: Event, now: Instant) -> list[Command]:
        if type(event) is RequestArrived:
            upstream = self.lease_at_once(event.ticket, event.model, event.client, event.takes_slot, now)
            if upstream is not None:
                return [Grant(event.ticket, event.model, upstream, "ready")]
        elif type(event) is RequestLeft:
            commands = self.leave_quietly(event.ticket, event.is_answered, now)
            if commands is not None:
                return commands
        transitions = Transitions(self._state, now)
        self._note(transitions, event)
        if transitions.changes_somebodys_fate:
            self._wake_at(transitions.commands, settle(transitions))
        return transitions.commands

    # The fast path of nearly all requests. `handle` uses it too, so tests and replays run the same code.

    def lease_at_once(
        self, ticket: TicketId, name: ModelName, client: ClientId, takes_slot: bool, now: Instant
    ) -> Upstream | None:
        """Lease a ready model while no request waits; None if `settle` must run."""
        state = self._state
        model = state.models.get(name)
        if model is None or model.phase is not READY or state.queue.model_of or state.is_closing:
            return None
        if takes_slot:
            limit = model.spec.concurrency_limit or model.slots_reported
            if limit is not None and model.slots_used >= limit:
                return None
            model.slots_used += 1
            if model.stats.unused_since is not None:
                state.model_stats.came(name, model.stats, client, now)
        model.leases[ticket] = Ticket(ticket, name, client, now, USE if takes_slot else READ)
        state.leases[ticket] = model
        model.served += 1
        return model.upstream

    def leave_quietly(self, ticket: TicketId, is_answered: bool, now: Instant) -> list[Command] | None:
        """End a lease while no request waits; None if `settle` must run."""
        state = self._state
        model = state.leases.get(ticket)
        if model is None or model.phase is not READY or state.queue.model_of or model.keep_alive is not None:
            return None
        del state.leases[ticket]
        lease = model.leases.pop(ticket)
        if is_answered and not model.has_answered:
            model.prove_itself()
        if lease.kind is USE:
            model.slots_used -= 1
            if model.spec.keeps_conversations:
                model.conversations.note_end_of_lease(ticket)
            stats = model.stats
            state.model_stats.went(lease.model, stats, lease.client, lease.since, now)
            if not model.slots_used:
                stats.unused_since = now
        commands: list[Command] = []
        if not model.leases:
            model.idle_since = now
            ttl_s = model.spec.ttl_s
            if ttl_s is not None and now + ttl_s < self._wake and not model.spec.pinned:
                self._wake_at(commands, now + ttl_s)
        return commands

    def pass_over_prompt(self, ticket: TicketId) -> None:
        """A prompt that `wants_prompt` says is too short to matter: only that it was reported counts."""
        model = self._state.leases.get(ticket)
        if model is not None and model.spec.keeps_conversations:
            model.conversations.reported.add(ticket)

    def _wake_at(self, commands: list[Command], when: Instant) -> None:
        if when != self._wake and when != NEVER:
            commands.append(WakeAt(when))
        self._wake = when

    # Events

    def _note(self, transitions: Transitions, event: Event) -> None:
        match event:
            case RequestArrived() | LoadRequested():
                self._arrived(transitions, event)
            case RequestLeft():
                self._left(transitions, event)
            case UnloadRequested() if self._state.is_handing_over:
                self._state.postponed.append(event)
            case UnloadRequested():
                self._unload_requested(transitions, event)
            case KeepAliveChanged():
                self._keep_alive_changed(transitions, event)
            case UpstreamReady():
                self._ready(transitions, event)
            case SlotsLearned():
                self._slots_learned(event)
            case MemoryMeasured():
                note_measured(self._state, event)
            case DevicesChanged():
                note_devices(self._state, event)
            case YieldRequested():
                self._state.yields[event.for_program] = event
            case YieldEnded():
                self._state.yields.pop(event.for_program, None)
            case UpstreamFailed():
                self._failed(transitions, event)
            case UpstreamExited():
                self._exited(transitions, event)
            case UpstreamUnresponsive():
                self._unresponsive(transitions, event)
            case UpstreamAsleep() | UpstreamAwake() | SleepFailed() | WakeFailed():
                self._about_sleep(transitions, event)
            case ConversationsSaved() | ConversationsRestored() | PromptProcessed():
                conversations.note(transitions, event)
            case ClockReached():
                self._wake = NEVER
            case CatalogChanged() | OverridesChanged() | ProfileChanged() | FleetModelsChanged():
                change_catalog(transitions, event)
            case ShutdownRequested():
                self._handover_ended(transitions)
                self._shutdown_requested(transitions, event)
            case HandoverRequested():
                handover_transitions.request(transitions)
            case HandoverReceived():
                handover_transitions.receive(transitions, event)
            case ServerAdopted():
                handover_transitions.adopt(transitions, event)
            case HandoverCancelled() | HandoverCompleted():
                self._handover_ended(transitions)
            case _:
                assert_never(event)

    def _arrived(self, transitions: Transitions, event: RequestArrived | LoadRequested) -> None:
        state = self._state
        ticket = ticket_of(event, transitions.now)
        if state.is_closing:
            return transitions.refuse(ticket.id, ShuttingDown(SHUTTING_DOWN, retry_after=5), "shutting down")
        if ticket.model not in state.catalog.models:
            return transitions.refuse(ticket.id, removed(ticket.model), "removed from the configuration")
        model = state.models[ticket.model]
        is_new = event.waited_s is None
        if is_new and ticket.kind is RequestKind.LOAD:
            transitions.forgive(model)
        if event.missing and model.phase is Phase.COLD:  # before anything is unloaded for it
            failure = LoadFailed(f"{model.name} is not ready: {event.missing}")
            model.failures, model.may_pass = model.failures or 1, False  # shown as failed; never a reason to back off
            model.why = model.last_error = failure.message
            state.failed[model.name] = model
            transitions.refuse_all(model.name, failure, "a file or the program is missing")
            return transitions.refuse(ticket.id, failure, "a file or the program is missing")
        most = state.catalog.policy.max_queue
        limit = state.queue.reached_limit(ticket.client, ticket.kind, most) if is_new else None
        if limit and not serves_at_once(state, model, ticket.kind):
            error = self._line_is_full(ticket.model, limit, transitions.now)
            return transitions.refuse(ticket.id, error, "the queue is full")
        if not state.queue.count(ticket.model) and serves_at_once(state, model, ticket.kind):
            return transitions.serve_at_once(model, ticket)
        return transitions.join(ticket)

    def _line_is_full(self, name: ModelName, bound: str, now: Instant) -> Busy:
        text = f"the queue for {name} is full: {bound}. Try again later."
        expected_s = newcomer_waits_s(self._state, name, now)
        return Busy(text, retry_after=min(LONGEST_RETRY_S, max(1.0, expected_s)))

    def _left(self, transitions: Transitions, event: RequestLeft) -> None:
        if not transitions.quit(event.ticket):
            transitions.give_back(event.ticket, event.is_answered)

    def _unload_requested(self, transitions: Transitions, event: UnloadRequested) -> None:
        model = self._state.models.get(event.model)
        is_wanted = self._state.queue.count(event.model) > 0
        if model is not None and model.phase is not Phase.READY:  # else it would be loaded again at once
            why = "was stopped by an operator while this request was waiting for it. Try again to load it."
            transitions.refuse_all(event.model, Unloaded(f"{event.model} {why}"), "stopped by an operator")
        if model is None or not model.phase.takes_memory:
            if is_wanted:
                return transitions.commands.append(Confirm(event.ticket, event.model, "its queue was refused"))
            return transitions.refuse(event.ticket, NotRunning(f"{event.model} is not running"), "not running")
        model.unload_tickets.append(event.ticket)
        transitions.unload(model, Cause.OPERATOR, "stopped by an operator")
        if model.phase is Phase.DRAINING:
            deadline = transitions.now + (0 if event.force else model.spec.drain_timeout_s)
            model.cut_at = deadline if model.cut_at is None else min(model.cut_at, deadline)
        return None

    def _keep_alive_changed(self, transitions: Transitions, event: KeepAliveChanged) -> None:
        """It concerns a process: without one there is nothing to keep, and the next one may be another client's."""
        model = self._state.models.get(event.model)
        transitions.changes_somebodys_fate = bool(model and model.phase.takes_memory and model.keep_alive != event)
        if model and transitions.changes_somebodys_fate:
            model.keep_alive = event

    def _ready(self, transitions: Transitions, event: UpstreamReady) -> None:
        model = self._state.of_launch(event)
        # A server that becomes ready after it was told to stop still stops.
        if model and model.phase is Phase.LOADING:
            conversations.restore_or_become_ready(transitions, model, event.upstream)

    def _slots_learned(self, event: SlotsLearned) -> None:
        model = self._state.of_launch(event)
        if model and model.upstream:
            model.slots_reported = event.total_slots

    def _failed(self, transitions: Transitions, event: UpstreamFailed) -> None:
        if not (model := self._state.of_launch(event)):
            return
        if model.phase is Phase.UNLOADING:
            transitions.exit(model)
        else:
            error = event.error
            transitions.fail(model, Move.FAIL, error.message, error.output, may_pass=error.may_pass)
            transitions.refuse_all(model.name, error, "it failed to start")
        follow_catalog(self._state, model)

    def _exited(self, transitions: Transitions, event: UpstreamExited) -> None:
        if not (model := self._state.of_launch(event)):
            return
        if model.phase is Phase.UNLOADING:
            transitions.exit(model)
        elif model.phase is Phase.ASLEEP or (model.sleep_level and model.phase is Phase.LOADING):
            transitions.die_asleep(model, f"{model.name} {event.exit_status} while asleep")
        elif model.is_restoring:
            model.conversations.keeps_none_because = DIED
            error = f"{model.name} {event.exit_status} while its conversations were restored"
            transitions.fail(model, Move.FAIL, error, event.output)
        else:
            advice = f". {event.hint}" if event.hint else ""
            transitions.fail(model, Move.CRASH, f"{model.name} {event.exit_status}{advice}", event.output)
        follow_catalog(self._state, model)

    def _unresponsive(self, transitions: Transitions, event: UpstreamUnresponsive) -> None:
        """Cut its requests; those that wait for it get a fresh start. Its process is not expected to recover."""
        model = self._state.of_launch(event)
        if model is None or model.phase not in (Phase.READY, Phase.DRAINING):
            return
        reason = f"{model.name} is unresponsive: it answered neither requests nor its health check"
        reason = f"{reason} for {event.silent_s:.0f} s"
        transitions.unload(model, Cause.UNRESPONSIVE, reason)
        transitions.cut(model, reason, Unresponsive(f"{reason}. It is being stopped; try again to restart it."))

    def _about_sleep(self, transitions: Transitions, event: AboutSleep) -> None:
        """If the model was told to stop meanwhile, it has no sleep level and the event is ignored."""
        model = self._state.of_launch(event)
        if model is None or model.sleep_level is None:
            return
        match event:
            case UpstreamAsleep() if model.is_falling_asleep:
                transitions.fall_asleep(model)
            case SleepFailed(error=error) if model.is_falling_asleep and model.cause:
                transitions.sleep_failed(model, model.cause, f"{model.why}; putting it to sleep failed ({error})")
            case UpstreamAwake() if model.phase is Phase.LOADING and model.upstream:
                transitions.become_ready(model, model.upstream)
            case WakeFailed(error=error) if model.phase is Phase.LOADING:
                transitions.sleep_failed(model, Cause.WAKE_FAILED, f"waking it failed ({error})")

    def _handover_ended(self, transitions: Transitions) -> None:
        handover_transitions.end(transitions)
        postponed, self._state.postponed = self._state.postponed, []
        for event in postponed:
            self._note(transitions, event)

    def _shutdown_requested(self, transitions: Transitions, event: ShutdownRequested) -> None:
        self._state.is_closing = True
        for name in self._state.queue.models():
            transitions.refuse_all(name, ShuttingDown(SHUTTING_DOWN, retry_after=5), "shutting down")
        for model in self._state.with_process():
            transitions.unload(model, Cause.SHUTDOWN, "hotseat is shutting down")
            if event.force and model.phase is Phase.DRAINING:
                model.cut_at = transitions.now


def ticket_of(event: RequestArrived | LoadRequested, now: Instant) -> Ticket:
    since = now - (event.waited_s or 0.0)
    if isinstance(event, LoadRequested):
        return Ticket(event.ticket, event.model, event.client, since, RequestKind.LOAD)
    kind = RequestKind.USE if event.takes_slot else RequestKind.READ
    return Ticket(event.ticket, event.model, event.client, since, kind, event.is_batch)
