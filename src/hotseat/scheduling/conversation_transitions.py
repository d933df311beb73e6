"""The transitions of conversations: save before a stop, restore after a start, learn from what servers report."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hotseat.scheduling.commands import RestoreConversations, SaveConversations
from hotseat.scheduling.conversation_stats import Restored
from hotseat.scheduling.conversations import restoring
from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved, PromptProcessed
from hotseat.scheduling.lifecycle import Move

if TYPE_CHECKING:
    from hotseat.identifiers import Upstream
    from hotseat.scheduling.commands import Allowance
    from hotseat.scheduling.state import ModelState
    from hotseat.scheduling.transitions import Transitions

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
