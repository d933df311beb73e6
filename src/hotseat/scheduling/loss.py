"""What clients lose if a loaded model is unloaded for a claim. One number decides who stays, until when, and who goes.

It is counted in client-seconds. If the model is in use, each of its clients waits for a swap there and back. If it is
idle, its next request waits for the load, with the probability that it arrives while the other model has its turn.

A model in use stays until the claim has waited `patience` times what its clients would lose, per client that waits for
the claim: at least one turn, which is `patience` times the swap there and back, and at most two. An idle model leaves
at once, unless past gaps say that its next request is about to arrive. Models with the smallest loss leave first.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import is_protected
from hotseat.scheduling.state import LONG_AGO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.model_stats import ModelStats
    from hotseat.scheduling.queue import Claim
    from hotseat.scheduling.state import ModelState, State

NEVER: Instant = float("inf")
LONGEST_TURNS = 2.0
"""No model stays longer than so many turns, however many clients use it."""
BATCH_URGENCY = 0.5
LEAST_SWAP_S = 0.001
EVIDENCE = 2
"""With fewer known gaps than this no request is expected."""
DELAY_WEIGHT = 1.5
"""The delay of others is certain and the gain is a guess, so the delay weighs more."""
SLACK, LEAST_SLACK_S = 0.1, 0.05
"""Clients are not exact: expect them a little later than after the usual gap."""


class Because(Enum):
    """Why a model stays."""

    PINNED = "pinned"
    LOADING = "loading"
    TURN = "turn"
    OLDER_REQUESTS = "older requests"
    EXPECTED = "its next request is expected"


class Loss(NamedTuple):
    """What is lost if `resident` is unloaded for a claim, and until when it stays therefore."""

    resident: ModelState
    client_s: float
    until: Instant = LONG_AGO
    because: Because | None = None


class Pressure(NamedTuple):
    """All requests that wait for missing models."""

    waiting: int
    loads_s: Seconds
    """Time to load all those models."""


class Losses:
    """One decision: figures that every comparison needs are computed once."""

    __slots__ = ("_claims", "_now", "_others", "_state")

    def __init__(self, state: State, now: Instant, claims: Iterable[Claim]) -> None:
        self._state, self._now = state, now
        self._claims = [claim.model for claim in claims]
        waiting = sum(state.queue.count(name) for name in self._claims)
        self._others = Pressure(waiting, sum(state.load_s(name) for name in self._claims))

    def of(self, claim: Claim, resident: ModelState) -> Loss:
        state, wanted = self._state, self._state.models[claim.model]
        if resident.phase is Phase.ASLEEP:
            return Loss(resident, expected_loss(state, resident, self._horizon_s(wanted, resident), self._now))
        if is_protected(state, wanted, resident):
            return Loss(resident, NEVER, NEVER, Because.PINNED)
        if resident.phase is Phase.LOADING:
            return self._loading(resident)
        if state.is_idle(resident):
            return self._idle(claim, wanted, resident)
        return self._in_use(claim, wanted, resident)

    def is_overdue(self, claim: Claim, resident: ModelState) -> bool:
        """Has the claim waited for a whole turn of a model that loads again and again?"""
        return begin(claim, resident) + self._turn_s(self._state.models[claim.model], resident) <= self._now

    def _loading(self, resident: ModelState) -> Loss:
        """A load that no request waits for is abandoned, unless it is nearly done."""
        state, name = self._state, resident.name
        load_s = state.load_s(name)
        left_s = resident.since + load_s - self._now
        if state.queue.count(name) or 0.0 <= left_s <= state.model_stats.stop_s(name):
            return Loss(resident, NEVER, NEVER, Because.LOADING)
        return Loss(resident, load_s)

    def _idle(self, claim: Claim, wanted: ModelState, resident: ModelState) -> Loss:
        lost = expected_loss(self._state, resident, self._horizon_s(wanted, resident), self._now)
        turn_s = min(self._turn_s(wanted, resident), self._share_of_max_wait(claim.model, resident))
        load_s, limit_s = self._state.load_s(resident.name), begin(claim, resident) + turn_s - self._now
        stay_s = linger_s(resident.stats, load_s, self._now - resident.idle_since, self._others, limit_s)
        return Loss(resident, lost, self._now + stay_s, Because.EXPECTED) if stay_s > 0.0 else Loss(resident, lost)

    def _in_use(self, claim: Claim, wanted: ModelState, resident: ModelState) -> Loss:
        turn_s, client_s = self._turn_s(wanted, resident), self._client_s(wanted, resident)
        longest_s = turn_s if claim_urgency(self._state, wanted) > resident.spec.urgency else LONGEST_TURNS * turn_s
        waiting = max(1, self._state.queue.clients(wanted.name))
        stay_s = max(turn_s, min(longest_s, self._weight(wanted, resident) * client_s / waiting))
        because = Because.TURN
        if stay_s < longest_s and self._has_older_requests(claim, resident):
            stay_s, because = longest_s, Because.OLDER_REQUESTS
        stay_s = min(stay_s, self._share_of_max_wait(claim.model, resident))
        drains = waiting * resident.stats.drain_s  # those who wait for the claim wait for the drain, too
        return Loss(resident, client_s + drains, begin(claim, resident) + stay_s, because)

    def _client_s(self, wanted: ModelState, resident: ModelState) -> float:
        """Each client waits for the swap; at the least, one waits for it and for the requests that drain."""
        leased = {lease.client for lease in resident.leases.values()}
        using = max(len(leased), self._state.queue.clients(resident.name))
        swap_s = self._swap_s(wanted, resident)
        return max(using * swap_s, swap_s + 2 * (resident.stats.service_s + wanted.stats.service_s))

    def _turn_s(self, wanted: ModelState, resident: ModelState) -> Seconds:
        """The shortest stay of a model in use."""
        return self._weight(wanted, resident) * self._swap_s(wanted, resident)

    def _horizon_s(self, wanted: ModelState, resident: ModelState) -> Seconds:
        """How long the other model has the memory, as a guess: also without patience it is loaded for a while."""
        return max(self._turn_s(wanted, resident), self._swap_s(wanted, resident))

    def _weight(self, wanted: ModelState, resident: ModelState) -> float:
        """How many seconds the claim waits for each second that others would lose."""
        return self._state.catalog.policy.patience * resident.spec.urgency / claim_urgency(self._state, wanted)

    def _swap_s(self, wanted: ModelState, resident: ModelState) -> Seconds:
        """To load the one now and the other again later; never nothing, so that a model in use is not a free victim."""
        return max(LEAST_SWAP_S, self._state.load_s(wanted.name) + self._state.load_s(resident.name))

    def _share_of_max_wait(self, wanted: ModelName, resident: ModelState) -> Seconds:
        """How long one turn may take so that a full rotation of all competing models keeps `maxWait`."""
        max_wait_s, state = self._state.catalog.policy.max_wait_s, self._state
        if max_wait_s is None:
            return NEVER
        ring = {*self._claims, wanted, resident.name}
        fixed_s = sum(state.load_s(name) + state.stop_s(name) + state.models[name].stats.drain_s for name in ring)
        return max(0.0, max_wait_s - fixed_s) / (len(ring) - 1)

    def _has_older_requests(self, claim: Claim, resident: ModelState) -> bool:
        queue = self._state.queue
        return bool(queue.count(resident.name)) and queue.oldest(resident.name) <= claim.since


def claim_urgency(state: State, wanted: ModelState) -> float:
    claim = state.claims.of(wanted.name)
    return wanted.spec.urgency * (BATCH_URGENCY if claim is not None and claim.is_batch else 1.0)


def begin(claim: Claim, resident: ModelState) -> Instant:
    """When the turn starts. A model that overtook an older claim gets no head start against it."""
    return claim.since if claim.since < resident.claimed_at else max(claim.since, resident.ready_at)


def expected_loss(state: State, resident: ModelState, within_s: Seconds, now: Instant) -> float:
    """The load that an unused model's next client waits for, if it comes while another model has the memory.

    For a sleeping model it is what waking saves over loading.
    """
    load_s = state.load_s(resident.name)
    if resident.phase is Phase.ASLEEP:
        load_s = max(0.0, state.model_stats.load_s(resident.name) - load_s)
    next_use = next_use_s(resident.stats.gaps, now - resident.idle_since)
    return load_s * within_s / (within_s + next_use)


def linger_s(stats: ModelStats, load_s: Seconds, unused_s: Seconds, others: Pressure, limit_s: Seconds) -> Seconds:
    """How much longer to keep a model that has been unused for `unused_s`; 0: do not keep it.

    Compares waiting as long as each past gap, and picks the wait with the highest expected gain.
    """
    if limit_s <= 0.0 or len(stats.reuse_gaps) < EVIDENCE:
        return 0.0
    left = sorted(gap - unused_s for gap in stats.reuse_gaps if gap > unused_s)
    best = stay_s = gained = 0.0
    for n, gap in enumerate(left, start=1):
        if gap > limit_s:
            break
        delay = DELAY_WEIGHT * others.waiting
        gained += load_s + max(0.0, others.loads_s - gap) - delay * (gap + stats.service_s)
        net = gained - delay * gap * (len(left) - n)
        if net > best:
            best, stay_s = net, gap
    return stay_s and min(limit_s, stay_s * (1 + SLACK) + LEAST_SLACK_S)


def next_use_s(gaps: Iterable[Seconds], unused_s: Seconds) -> Seconds:
    """Expected seconds until the next use of a model that has been unused for `unused_s`.

    The mean of the remainders of longer gaps and one guess: as long again. Without samples this orders models by least
    recent use.
    """
    left = [gap - unused_s for gap in gaps if gap > unused_s]
    return max(0.1, (sum(left) + max(unused_s, 1.0)) / (len(left) + 1))


def loss_in_words(state: State, model: ModelState, now: Instant) -> str:
    """Why it was the one to leave, for the swap log."""
    if model.leases or state.queue.count(model.name):
        running = len(model.leases)
        return f"its turn was over ({running} {'request' if running == 1 else 'requests'} running)"
    unused_s, load_s = now - model.idle_since, state.usual_load_s(model.name)
    again_s = next_use_s(model.stats.gaps, unused_s)
    again = f", next request expected in about {again_s:.0f} s" if model.stats.gaps else ""
    return f"idle for {unused_s:.1f} s{again}{f', loads in {load_s:.1f} s' if isfinite(load_s) else ''}"
