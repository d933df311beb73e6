"""The transitions of the state: each updates it consistently and appends the command that belongs to it."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from hotseat.errors import with_output
from hotseat.scheduling.commands import (
    Cause,
    Command,
    Confirm,
    Cut,
    Evicted,
    Grant,
    PutToSleep,
    ReadAhead,
    Refuse,
    ReportFailure,
    ReportSwap,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeUp,
)
from hotseat.scheduling.lifecycle import Move, Phase, after
from hotseat.scheduling.queue import RequestKind, Ticket
from hotseat.scheduling.state import LONG_AGO, takes_slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, ModelName, Place, Seconds, TicketId, Upstream
    from hotseat.scheduling.state import ModelState, State

FIRST_BACKOFF_S: Seconds = 2.0
LONGEST_BACKOFF_S: Seconds = 60.0
TRY_ALONE_AGAIN_S: Seconds = 600.0
"""After a start alone has failed, because the next one unloads models that work again."""


def backoff_s(failures: int) -> Seconds:
    """After one failure the next request starts it at once; from the second in a row the delay doubles."""
    return 0.0 if failures < 2 else min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failures - 2))


class Transitions:
    """The transitions of one `handle` call and their commands, in order."""

    __slots__ = ("changes_somebodys_fate", "commands", "now", "state")

    def __init__(self, state: State, now: Instant) -> None:
        self.state = state
        self.now = now
        self.commands: list[Command] = []
        self.changes_somebodys_fate = True
        """False if no other request can be affected: `settle` is skipped."""

    # Tickets

    def join(self, ticket: Ticket) -> None:
        state, model = self.state, self.state.models[ticket.model]
        self._note_use(model, ticket)
        claim = state.claims.of(ticket.model)
        state.queue.join(ticket)
        state.reckon_claim(model)
        self.changes_somebodys_fate = claim is None or claim != state.claims.of(ticket.model)

    def serve_at_once(self, model: ModelState, ticket: Ticket) -> None:
        """A free slot of a ready model: requests for other models do not wait longer than before."""
        self._note_use(model, ticket)
        self.lease(model, ticket, f"{model.name} is ready")
        self.changes_somebodys_fate = False

    def _note_use(self, model: ModelState, ticket: Ticket) -> None:
        if model.stats.unused_since is not None and takes_slot(ticket):
            self.state.model_stats.came(ticket.model, model.stats, ticket.client, self.now)

    def quit(self, ticket: TicketId) -> bool:
        """Remove a waiting ticket; False if it did not wait."""
        left = self.state.queue.leave(ticket)
        if left is None:
            return False
        model, claim = self.state.models[left.model], self.state.claims.of(left.model)
        self._note_unused(model)
        self.state.reckon_claim(model)
        self.changes_somebodys_fate = claim is None or claim != self.state.claims.of(left.model)
        return True

    def grant(self, model: ModelState, ticket: Ticket, reason: str) -> None:
        self.state.queue.serve(ticket)
        self.lease(model, ticket, reason)

    def lease(self, model: ModelState, ticket: Ticket, reason: str) -> None:
        """From here on the model cannot be evicted during the request."""
        assert model.upstream is not None
        if ticket.kind is RequestKind.LOAD:
            return self.commands.append(Confirm(ticket.id, model.name, reason))
        model.leases[ticket.id] = ticket._replace(since=self.now)
        model.slots_used += takes_slot(ticket)
        model.served += 1
        self.state.leases[ticket.id] = model
        return self.commands.append(Grant(ticket.id, model.name, model.upstream, reason))

    def give_back(self, ticket: TicketId, is_answered: bool) -> ModelState | None:
        """End a lease; return its model, or None if there is no such lease (any more)."""
        model = self.state.leases.pop(ticket, None)
        if model is None:
            return None
        if is_answered and not model.has_answered:
            model.prove_itself()
        lease = model.leases.pop(ticket)
        if takes_slot(lease):
            model.slots_used -= 1
            if model.spec.keeps_conversations:
                model.conversations.note_end_of_lease(ticket)
            self.state.model_stats.went(model.name, model.stats, lease.client, lease.since, self.now)
            self._note_unused(model)
        if not model.leases:
            model.idle_since = self.now
        still_busy = model.leases and model.phase is Phase.READY and not self.state.queue.count(model.name)
        self.changes_somebodys_fate = not still_busy
        return model

    def _note_unused(self, model: ModelState) -> None:
        if not model.slots_used and not self.state.queue.clients(model.name):
            model.stats.unused_since = self.now

    def refuse(self, ticket: TicketId, error: HotseatError, reason: str) -> None:
        self.quit(ticket)
        self.commands.append(Refuse(ticket, error, reason))

    def refuse_all(self, name: ModelName, error: HotseatError, reason: str) -> None:
        for ticket in self.state.queue.waiting_for(name):
            self.refuse(ticket.id, error, reason)

    # Phases

    def start(self, model: ModelState, gpus: tuple[Place, ...], reason: str) -> None:
        self._note_claim(model)
        self.enter(model, Move.START, reason)
        model.spec = self.state.catalog.models[model.name]
        model.launch = self.state.next_launch()
        model.gpus = gpus
        model.has_answered = False
        self.state.read_ahead.pop(model.name, None)
        self._note_concurrent_loads()
        self.commands.append(StartUpstream(model.name, model.launch, model.spec, reason, gpus, model.given is not None))

    def wake(self, model: ModelState, reason: str) -> None:
        assert model.launch is not None
        assert model.sleep_level is not None
        self._note_claim(model)
        self.enter(model, Move.WAKE, reason)
        self._note_concurrent_loads()
        self.commands.append(WakeUp(model.name, model.launch, model.sleep_level, reason))

    def _note_claim(self, model: ModelState) -> None:
        claim = self.state.claims.of(model.name)
        assert claim is not None
        model.claimed_at = claim.since

    def read_ahead(self, model: ModelState, reason: str) -> None:
        """Read its files once while memory is freed. A sleeping model needs no files."""
        spec = self.state.catalog.models[model.name]
        if not self.state.catalog.policy.reads_ahead or model.phase is Phase.ASLEEP:
            return
        if spec.name not in self.state.read_ahead:
            self.state.read_ahead[spec.name] = spec.recipe
            self.commands.append(ReadAhead(spec.name, spec, reason))

    def stop_reading(self, name: ModelName, reason: str) -> None:
        del self.state.read_ahead[name]
        self.commands.append(StopReading(name, reason))

    def _note_concurrent_loads(self) -> None:
        loading = self.state.in_phase(Phase.LOADING)
        for each in loading:
            each.loads_alone = len(loading) == 1

    def become_ready(self, model: ModelState, upstream: Upstream) -> None:
        self._report_swap(model)
        self._note_load(model, self.now - model.since)
        self.enter(model, Move.BECOME_READY, model.why)
        model.upstream, model.sleep_level = upstream, None
        model.ready_at = model.idle_since = self.now
        model.served = 0
        self.state.model_stats.used(model.name, model.stats)

    def _note_load(self, model: ModelState, seconds: Seconds) -> None:
        if model.sleep_level is not None:
            if model.fell_asleep_in_s is not None:
                model.stats.sleep_stats(model.sleep_level.name).woke(model.fell_asleep_in_s, seconds)
        # Loads share the disk: the duration of parallel loads says little about either.
        elif model.loads_alone or model.stats.load_s is None:
            self.state.model_stats.loaded(model.name, seconds)

    def _report_swap(self, model: ModelState) -> None:
        """Report the cost of a load that others were evicted for."""
        if not model.evicted_for_it:
            return
        line = self.state.queue
        client = line.first(model.name).client if line.count(model.name) else None
        usual_s, measured_s = self.state.usual_load_s(model.name), self.now - model.since
        predicted_s = usual_s if isfinite(usual_s) else None
        waited_s = self.now - model.claimed_at
        report = ReportSwap(model.name, client, waited_s, predicted_s, measured_s, model.evicted_for_it, model.why)
        self.commands.append(report)

    def evict(
        self, victim: ModelState, wanted: ModelState, loss: str, rule: str, sleep_level: SleepLevel | None
    ) -> None:
        """Evict for `wanted`, to sleep if `sleep_level` is set. The next claim of the victim counts from now."""
        load_s = self.state.load_s(victim.name)
        if victim.phase is Phase.READY:
            went = Evicted(victim.name, loss, self.now - victim.ready_at, load_s, victim.served)
            wanted.evicted_for_it = (*wanted.evicted_for_it, went)
        victim.evicted_at = self.now
        abandoned = "; no request was waiting for it any more" if victim.phase is Phase.LOADING else ""
        self.unload(victim, Cause.EVICTION, f"{rule}{abandoned}")
        if victim.phase is Phase.DRAINING:
            victim.sleep_level = sleep_level

    def unload(self, model: ModelState, cause: Cause, reason: str) -> None:
        """Let it leave: a ready model drains first; a load or a sleep is stopped at once.

        A model that is leaving already continues to leave and will not sleep.
        """
        if model.phase is Phase.READY:
            model.cause = cause
            self.enter(model, Move.DRAIN, reason)
        elif model.phase in (Phase.LOADING, Phase.ASLEEP) or model.is_falling_asleep or model.conversations.is_saving:
            model.cause, model.why = cause, reason
            self.stop(model)
        if model.phase is Phase.DRAINING:
            model.sleep_level = None

    def stop(self, model: ModelState) -> None:
        """Stop its server; it has no leases."""
        assert model.launch is not None
        assert model.cause is not None
        model.ends_asleep = model.phase is Phase.ASLEEP
        self.enter(model, Move.STOP, model.why)
        model.upstream, model.conversations.is_saving = None, False
        if not model.ends_asleep:
            model.sleep_level = None
        now = self.state.catalog.models.get(model.name, model.spec)  # its process may have an older recipe
        self.commands.append(StopUpstream(model.name, model.launch, model.cause, model.why, now.unload_timeout_s))

    def suspend(self, model: ModelState) -> None:
        """Put its server to sleep; it has no leases."""
        assert model.launch is not None
        assert model.sleep_level is not None
        self.enter(model, Move.SUSPEND, model.why)
        self.commands.append(PutToSleep(model.name, model.launch, model.sleep_level, model.why))

    def fall_asleep(self, model: ModelState) -> None:
        model.fell_asleep_in_s = self.now - model.since
        model.cause = None
        model.evicted_for_it = ()
        self.enter(model, Move.FALL_ASLEEP, model.why)

    def sleep_failed(self, model: ModelState, cause: Cause, reason: str) -> None:
        """Sleeping or waking failed at this level: stop its server. Requests for it keep waiting."""
        assert model.sleep_level is not None
        model.failed_levels.add(model.sleep_level.name)
        model.cause, model.why = cause, reason
        self.stop(model)

    def cut(self, model: ModelState, reason: str, error: HotseatError | None = None) -> None:
        """End its leases now. They count until they are given back."""
        model.cut_at = None
        for ticket in model.leases:
            self.commands.append(Cut(ticket, model.name, reason, error))

    def exit(self, model: ModelState) -> None:
        if model.sleep_level is None and not model.conversations.is_saving:
            model.stats.stopped(self.now - model.since)
        elif model.sleep_level is not None and model.is_falling_asleep:
            model.failed_levels.add(model.sleep_level.name)
        self.enter(model, Move.EXIT, model.why)
        self._remove(model)

    def die_asleep(self, model: ModelState, reason: str) -> None:
        """No request used it, so none is notified. A level that it died of while waking is not used again."""
        if model.phase is Phase.LOADING and model.sleep_level is not None:
            model.failed_levels.add(model.sleep_level.name)
        self.enter(model, Move.DIE, reason)
        self._remove(model)

    def fail(self, model: ModelState, move: Move, error: str, output: Sequence[str], *, may_pass: bool = True) -> None:
        """A start failed or a server died. That counts as a failure unless this process had completed a response."""
        if not model.has_answered:
            model.failures += 1
        retry_in_s = backoff_s(model.failures)
        if model.given and model.upstream is None:
            retry_in_s, error = TRY_ALONE_AGAIN_S, f"{model.why}; declare `memory` for {model.name}. It failed: {error}"
            may_pass = False
        model.last_error, model.may_pass = with_output(error, output), may_pass
        model.retry_at = self.now + retry_in_s
        is_crash, after_s = move is Move.CRASH, self.now - model.since
        self.commands.append(
            ReportFailure(model.name, is_crash, after_s, error, tuple(output), model.failures, retry_in_s)
        )
        self.enter(model, move, error)
        self._remove(model)

    def recover(self, model: ModelState) -> None:
        self.enter(model, Move.RECOVER, model.why)

    def forgive(self, model: ModelState) -> None:
        """Clear failures, for an operator's load or a changed configuration."""
        model.failures = 0
        model.failed_levels.clear()
        model.conversations.forgive()
        self.state.failed.pop(model.name, None)
        if model.phase is Phase.BACKOFF:
            self.recover(model)

    def enter(self, model: ModelState, move: Move, reason: str) -> None:
        model.phase = after(model.phase, move, f"{model.name}, {model.why}")
        model.since = self.now
        model.why = reason
        if model.phase is Phase.COLD:
            del self.state.active[model.name]
            if model.failures:
                self.state.failed[model.name] = model
        else:
            self.state.active[model.name] = model
            self.state.failed.pop(model.name, None)
        self.state.reckon_claim(model)

    def _remove(self, model: ModelState) -> None:
        """No process is left. Its leases end when their connections break; they no longer count for the model."""
        model.evicted_for_it = ()
        model.launch = model.upstream = model.sleep_level = model.fell_asleep_in_s = model.keep_alive = None
        model.ends_asleep, model.is_adopted, model.gpus = False, False, ()
        model.conversations.note_exit(model.stats.conversations)
        model.cut_at = model.cause = model.slots_reported = model.measured = model.given = None
        model.ready_at = model.idle_since = LONG_AGO
        for ticket in model.leases:
            del self.state.leases[ticket]
        model.leases.clear()
        model.slots_used = 0
        for ticket in model.unload_tickets:
            self.commands.append(Confirm(ticket, model.name, f"{model.name} has stopped"))
        model.unload_tickets.clear()
