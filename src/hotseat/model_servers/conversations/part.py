"""A conversation while its server writes it: under a temporary name, until the file is whole."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.saved_file import size_of, token_ids_in

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.identifiers import Bytes
    from hotseat.model_servers.conversations.saved_file import Origin
    from hotseat.model_servers.conversations.slots_api import Moved


class NotKept(Exception):
    """Why a conversation is not kept, as a sentence."""


def _new_stem() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Part:
    origin: Origin
    expected: Bytes
    stem: str = field(default_factory=_new_stem)

    @property
    def name(self) -> str:
        """For the server that writes it."""
        return f"{self.stem}.part"

    @property
    def final_name(self) -> str:
        return f"{self.origin.fingerprint}-{self.stem}.slot"

    def make_final(self, path: Path, moved: Moved) -> bytes:
        """Give the file its final name, and return its tokens; NotKept if it is not whole. Not for the event loop."""
        size = size_of(path) or 0
        if moved.tokens <= 0 or not 0 < moved.size == size:
            raise NotKept(f"the server wrote {moved.size} bytes, of which {size} are in its file; is the disk full?")
        try:
            os.chmod(path, 0o600)
            token_ids = token_ids_in(path, moved.tokens)
            os.rename(path, path.with_name(self.final_name))
        except FileNotFoundError as removed:
            raise NotKept("what was written has been removed") from removed
        return token_ids
