"""Saves and restores the conversations of a running server, unless it is told to stop meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import without
from hotseat.model_servers.conversations.attempt import Outcome
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.scheduling.events import ConversationsRestored, ConversationsSaved

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hotseat.identifiers import Address
    from hotseat.model_servers.running_server import RunningServer
    from hotseat.scheduling.commands import Allowance, RestoreConversations, SaveConversations

NO_FOLDER = "the server was started without a folder for its conversations"
OTHERS_FOLDER = "an earlier hotseat process started the server, with a folder of its own for conversations"


async def save(
    server: RunningServer, kept: ServerConversations | None, command: SaveConversations
) -> ConversationsSaved | None:
    """Return when all that the allowance permits is saved.

    The server lives on, unless it did not answer in time: it is about to be stopped, and may not react to SIGTERM. One
    that is stopped by a command is left to that: killing a client of a container leaves the container.
    """
    outcome = await _moved(server, kept, command.allowance, ServerConversations.save)
    if outcome is None:
        return None
    if outcome.is_late and server.recipe.stop is None:
        server.kill()
    return ConversationsSaved(command.model, command.launch, outcome.done, outcome.problem, outcome.unfinished)


async def restore(
    server: RunningServer, kept: ServerConversations | None, command: RestoreConversations
) -> ConversationsRestored | None:
    """Return when all that the allowance permits is restored; the server lives on."""
    outcome = await _moved(server, kept, command.allowance, ServerConversations.restore)
    return ConversationsRestored(command.model, command.launch, outcome.done, outcome.problem) if outcome else None


async def _moved(
    server: RunningServer,
    kept: ServerConversations | None,
    allowance: Allowance,
    move: Callable[[ServerConversations, Address, Allowance], Coroutine[Any, Any, Outcome]],
) -> Outcome | None:
    if kept is None:
        return Outcome(problem=OTHERS_FOLDER if server.is_adopted else NO_FOLDER)
    outcome = await server.while_wanted(lambda: move(kept, server.upstream.address, allowance), "moved")
    return outcome and outcome._replace(problem=without(outcome.problem, server.recipe.secrets))
