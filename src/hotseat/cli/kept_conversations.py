"""What `hotseat check` says about conversations that are kept across swaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.conversations import obstacle
from hotseat.config.effective import listed
from hotseat.config.units import size_text
from hotseat.state.cache_directory import conversations_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.config.load import Loaded


def kept_conversations(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[str]:
    """Says which models keep their conversations and where, and which do not and why; nothing if they are off."""
    disk, models = loaded.settings.conversations.disk, loaded.catalog.models
    if not disk:
        return
    if kept := [name for name, spec in models.items() if spec.keeps_conversations]:
        where = f"at most {size_text(disk)} in {conversations_directory(environ)}, removed when hotseat ends"
        yield f"Conversations are kept across swaps for {listed(kept)}: {where}."
    reasons = {name: obstacle(spec.recipe, environ) for name, spec in models.items() if name not in kept}
    if reasons:
        yield f"No conversations are kept for {listed([f'{name} ({reason})' for name, reason in reasons.items()])}."
