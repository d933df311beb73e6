"""The configuration in effect. A reload replaces it; other parts read it each time they need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.config.load import Loaded
    from hotseat.settings import ApiKey, Settings


class ActiveConfig:
    def __init__(self, loaded: Loaded, created_keys: Sequence[ApiKey] = ()) -> None:
        self.loaded = loaded
        self.created_keys = tuple(created_keys)
        """Of the commands `hotseat keys`. They change without a reload, and a reload does not change them."""

    @property
    def settings(self) -> Settings:
        """Of the configuration and the commands together."""
        return with_created_keys(self.loaded.settings, self.created_keys)


def with_created_keys(settings: Settings, keys: Sequence[ApiKey]) -> Settings:
    return structs.replace(settings, access=structs.replace(settings.access, created_keys=tuple(keys)))
