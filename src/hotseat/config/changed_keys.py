"""Which keys differ between two configurations, for the log line of a reload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NAMED = 10
NOT_KEYS = ("files", "fromModelsDir", "workingDir", "keepConversations", "withheldEnv", "concurrency")
"""Parts of the effective configuration that follow from others."""


def changed_keys(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Dotted, as in `models.qwen.ttl`; both are effective configurations. A new or removed part is one key."""
    return tuple(_differing(_keys_of(before), _keys_of(after)))


def _keys_of(effective: dict[str, Any]) -> dict[str, Any]:
    """By the names that a file has for them."""
    keys = {**effective, **effective["settings"], "devices": effective["budgets"]}
    return {key: value for key, value in keys.items() if key not in (*NOT_KEYS, "settings", "budgets")}


def _differing(before: dict[str, Any], after: dict[str, Any], path: str = "") -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differing(old, new, f"{path}{key}.")
        elif old != new:
            yield f"{path}{key}"


def shortened(keys: tuple[str, ...]) -> str:
    """For one log line: the first keys, and how many more."""
    more = f", and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    return ", ".join(keys[:MOST_NAMED]) + more
