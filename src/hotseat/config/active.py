"""The configuration in effect. A reload replaces it; other parts read it each time they need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.config.load import Loaded
    from hotseat.settings import Settings


class ActiveConfig:
    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    @property
    def settings(self) -> Settings:
        return self.loaded.settings
