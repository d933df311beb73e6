"""Saves the conversations of a model before it is stopped and restores them after its next start, if it is worth it.

A conversation that is not kept is computed again when it continues. So keeping a token is worth the time to compute
it, times the probability that its conversation continues, minus the time to restore it. It costs the time to save it
if requests wait for the memory. Both grow with the tokens: either none is worth it, or all conversations of some length
are. Whoever waits for the memory waits at most `LEAST_S`, or a tenth of the load that follows, longer.

What servers report about the next prompts decides whether keeping works at all: a server may restore without an error
and reuse nothing, as some builds do with models that have a sliding window or a recurrent state.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.catalog import must_restart
from hotseat.scheduling.commands import Allowance, Cause, RestoreConversations, SaveConversations
from hotseat.scheduling.conversation_state import (
    LEAST_SAMPLE,
    USUAL_COMPUTE_RATE,
    USUAL_TOKEN_SIZE,
    USUAL_TRANSFER_RATE,
    Restored,
)
from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved, PromptProcessed
from hotseat.scheduling.lifecycle import Move

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds, Upstream
    from hotseat.scheduling.conversation_state import ConversationStats
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions

LEAST_S: Seconds = 0.25
SHARE = 0.1
"""Of the load that follows."""
MOST_S: Seconds = 2.0
"""If nothing waits: a request may arrive meanwhile."""
MOST_RESTORE_S: Seconds = 10.0
EACH_S: Seconds = 0.02
"""To ask the server for its slots and to save or restore one of them, whatever its length."""
LEAST_TOKENS = LEAST_SAMPLE
"""What servers report about shorter prompts is not asked for."""
SAVED_CAUSES = frozenset({Cause.EVICTION, Cause.TTL, Cause.OPERATOR, Cause.YIELD, Cause.EXCEEDS_MEMORY})
"""Other stops end hotseat, change the model, or concern a server that cannot be trusted."""
URGENT = frozenset({Cause.YIELD, Cause.EXCEEDS_MEMORY})
"""Another program waits for the memory."""
AboutConversations: TypeAlias = ConversationsSaved | ConversationsRestored | PromptProcessed


def note(transitions: Transitions, event: AboutConversations) -> None:
    state = transitions.state
    match event:
        case PromptProcessed():
            transitions.changes_somebodys_fate = False
            if model := state.leases.get(event.ticket):
                model.conversations.note_prompt(model.stats.conversations, event)
        case ConversationsSaved() if (model := state.of_launch(event)) and model.conversations.is_saving:
            _saved(transitions, model, event)
        case ConversationsRestored() if (model := state.of_launch(event)) and model.is_restoring:
            _restored(transitions, model, event)


def saving(state: State, model: ModelState) -> Allowance | None:
    """What saving the conversations of a drained model may cost; None: do not save."""
    may_have_some = model.served or model.conversations.has_unreported
    if not model.keeps_conversations or not may_have_some or model.cause not in SAVED_CAUSES:
        return None
    if state.is_closing or not _returns(state, model):
        return None
    stats = model.stats.conversations
    within_s, does_delay = _time_for(state, model)
    worth_s = stats.probability_of_return * (compute_s(stats) - transfer_s(stats, stats.restore_rate))
    allowance = _allowance(
        within_s, worth_s, transfer_s(stats, stats.slow_save_rate or stats.save_rate), does_delay=does_delay
    )
    has_none = allowance is not None and model.conversations.are_shorter_than(allowance.least_tokens)
    return None if has_none else allowance


def restoring(state: State, model: ModelState) -> Allowance | None:
    """What restoring may cost before the first request is granted; None: do not restore."""
    if not model.keeps_conversations or not model.conversations.has_saved:
        return None
    stats = model.stats.conversations
    within_s = min(MOST_RESTORE_S, max(LEAST_S, state.load_s(model.name)))
    worth_s = stats.probability_of_return * compute_s(stats)
    return _allowance(within_s, worth_s, transfer_s(stats, stats.restore_rate), does_delay=True)


def _time_for(state: State, model: ModelState) -> tuple[Seconds, bool]:
    """How long a save may take, and whether somebody waits for it."""
    if model.cause in URGENT:
        return LEAST_S, True
    loads = [state.load_s(claim.model) for claim in state.claims]
    return (max(LEAST_S, SHARE * min(loads)), True) if loads else (MOST_S, False)


def _returns(state: State, model: ModelState) -> bool:
    """Will its next server be the same? Its configuration may have changed while it drained for another reason."""
    spec = state.catalog.models.get(model.name)
    return spec is not None and not must_restart(model.spec, spec)


def _allowance(within_s: Seconds, worth_s: Seconds, token_s: Seconds, *, does_delay: bool) -> Allowance | None:
    """`worth_s` and `token_s` are per token; `does_delay`: somebody waits meanwhile."""
    gain_s = worth_s - does_delay * token_s
    if gain_s <= 0.0:
        return None
    return Allowance(within_s, max(LEAST_TOKENS, ceil(does_delay * EACH_S / gain_s)), token_s)


def compute_s(stats: ConversationStats) -> Seconds:
    """To compute one token of a prompt."""
    return 1.0 / (stats.compute_rate or USUAL_COMPUTE_RATE)


def transfer_s(stats: ConversationStats, rate: float) -> Seconds:
    """To write or read one token."""
    return (stats.token_size or USUAL_TOKEN_SIZE) / (rate or USUAL_TRANSFER_RATE)


def save(transitions: Transitions, model: ModelState, allowance: Allowance) -> None:
    """Save its conversations, then stop its server; it has no leases."""
    assert model.launch is not None
    transitions.enter(model, Move.SAVE, model.why)
    model.upstream, model.conversations.is_saving = None, True
    transitions.commands.append(SaveConversations(model.name, model.launch, allowance, model.why))


def _saved(transitions: Transitions, model: ModelState, event: ConversationsSaved) -> None:
    stats = model.stats.conversations
    stats.was_saved(event.saved)
    if event.unfinished:
        stats.was_too_slow(event.unfinished)
    model.conversations.has_saved = model.conversations.has_saved or bool(event.saved)
    transitions.stop(model)


def restore_or_become_ready(transitions: Transitions, model: ModelState, upstream: Upstream) -> None:
    """Its server is ready."""
    if allowance := restoring(transitions.state, model):
        restore(transitions, model, upstream, allowance)
    else:
        transitions.become_ready(model, upstream)


def restore(transitions: Transitions, model: ModelState, upstream: Upstream, allowance: Allowance) -> None:
    """Its server is ready; it becomes ready itself when its conversations are there."""
    assert model.launch is not None
    model.upstream = upstream
    reason = f"{model.name} is ready and conversations were saved when it was last stopped"
    transitions.commands.append(RestoreConversations(model.name, model.launch, allowance, reason))


def _restored(transitions: Transitions, model: ModelState, event: ConversationsRestored) -> None:
    assert model.upstream is not None
    model.stats.conversations.was_restored(event.restored)
    model.conversations.restored = Restored([each.tokens for each in event.restored]) if event.restored else None
    model.conversations.has_saved = bool(event.restored)
    transitions.become_ready(model, model.upstream)
