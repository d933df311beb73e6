"""PURE: limits the work of decoding a JSON body, which blocks all other requests; checked before decoding.

Commas and colons inside strings count too: a string with that many fits into no context.
"""

from __future__ import annotations

from hotseat.errors import TooLarge
from hotseat.settings import KiB

SMALL = 256 * KiB
"""Smaller bodies are cheap, whatever they contain."""
MOST_VALUES = 300_000
MOST_MEMBERS = 25_000
"""Of an object that is changed: each becomes a Python object."""


def check_values(body: bytes) -> None:
    """For a body that is only read: there is a comma between two values."""
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
    """For an object inside a body that is changed: each path into it decodes it again."""
    if len(raw) > SMALL:
        raise TooLarge(f"`{name}` in the request body is larger than {SMALL // KiB} KiB, too large to be changed.")
