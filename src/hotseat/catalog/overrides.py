"""PURE: what an operator has set for a model while hotseat runs. It takes precedence over the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds

MOST_TTL_S: Seconds = 1e9


class Overrides(Struct, frozen=True):
    """None: as configured."""

    pinned: bool | None = None
    ttl_s: Seconds | None = None
    """0: it is never unloaded for being idle."""

    def __bool__(self) -> bool:
        return self != NO_OVERRIDES


NO_OVERRIDES = Overrides()


class Configured(Struct, frozen=True):
    """What the configuration says about that which can be overridden."""

    pinned: bool
    ttl_s: Seconds | None
    """None: never."""
