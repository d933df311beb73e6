"""A model whose conversations were saved and restored, as far as a fake launcher does that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.identifiers import ClientId, ModelName
from hotseat.scheduling.events import PromptProcessed, Transfer

if TYPE_CHECKING:
    from tests.support.fake_launcher import FakeLauncher

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

SOMEONE = ClientId("someone")
TOKENS = 1000
COMPUTED_S = 2.0
"""For so many tokens."""


class Silent:
    """A waiter that does nothing."""

    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None: ...


async def served(dispatcher: Dispatcher, model: str, computed: int, cached: int) -> None:
    """A request whose prompt had so many tokens."""
    await dispatcher.operator.load_for_client(
        ModelName(model), SOMEONE
    )  # an operator's load would clear earlier failures
    ticket = dispatcher.ask(ModelName(model), SOMEONE, Silent())
    dispatcher.prompt_processed(PromptProcessed(ticket, computed, cached, COMPUTED_S * computed / TOKENS))
    dispatcher.leave(ticket, is_answered=True)


async def kept_and_continued(dispatcher: Dispatcher, launcher: FakeLauncher, model: str) -> None:
    """One conversation is computed, saved, restored and continued."""
    launcher.conversations = (Transfer(TOKENS, 50 << 20, 0.1),)
    await served(dispatcher, model, TOKENS, 0)
    await dispatcher.operator.unload(ModelName(model))
    await served(dispatcher, model, 10, TOKENS)


async def restored_in_vain(dispatcher: Dispatcher, launcher: FakeLauncher, model: str) -> None:
    """Conversations are restored, start after start, and none is ever reused."""
    launcher.conversations = (Transfer(TOKENS, 50 << 20, 0.1),)
    for _ in range(4):
        await served(dispatcher, model, TOKENS, 0)
        await dispatcher.operator.unload(ModelName(model))
