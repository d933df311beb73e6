"""PURE: how much work a JSON body may be. Nobody else is served while one is decoded, so it is judged before that.

Commas and colons inside texts count as well: a text with that many of them fits into no context.
"""

from __future__ import annotations

from hotseat.errors import TooLarge
from hotseat.settings import KiB

SMALL = 256 * KiB
"""Smaller bodies are no work, whatever they hold."""
MOST_VALUES = 1_000_000
MOST_MEMBERS = 50_000
"""Of an object that is changed: each becomes an object of ours."""


def check_values(body: bytes) -> None:
    """For a body that is looked through: there is a comma between two values."""
    if body.count(b",") > MOST_VALUES:
        raise TooLarge(f"the request body has more than {MOST_VALUES:,} values. Send fewer.")


def has_few_members(body: bytes) -> bool:
    """There is a colon in each member."""
    return body.count(b":") <= MOST_MEMBERS


def check_members(body: bytes) -> None:
    """For a body that is changed."""
    if not has_few_members(body):
        text = f"the request body has more than {MOST_MEMBERS:,} colons, too many to be changed"
        raise TooLarge(f"{text} (useModelName, filters). Send fewer, or remove those settings from the model.")


def check_inner(raw: bytes, name: str) -> None:
    """For an object inside a body that is changed: each path that leads into it decodes it again."""
    if len(raw) > SMALL:
        raise TooLarge(f"`{name}` in the request body is larger than {SMALL // KiB} KiB, too large to be changed.")
