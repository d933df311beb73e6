"""PURE: how much work a JSON body may be. Nobody else is served while one is decoded, so it is judged before that.

A text that is full of commas, or of quotes before colons, counts as well; one of that size fits into no context.
"""

from __future__ import annotations

from hotseat.errors import TooLarge
from hotseat.settings import KiB

SMALL = 256 * KiB
"""Smaller ones are no work, whatever they hold."""
MOST_VALUES = 2_000_000
MOST_MEMBERS = 100_000
"""Of an object that is changed, with those of the objects within it: each becomes an object of ours."""
BEFORE_A_COLON = (b'"', b" ", b"\t", b"\r", b"\n")


def check_values(body: bytes) -> None:
    """For a body that is looked through: there is a comma between two values."""
    if body.count(b",") > MOST_VALUES:
        raise TooLarge(f"the request body has more than {MOST_VALUES:,} values. Send fewer.")


def check_members(body: bytes) -> None:
    """For a body that is changed: before the colon of a member is a quote or a blank."""
    if body.count(b":") <= MOST_MEMBERS:
        return
    found = 0
    for before in BEFORE_A_COLON:
        found += body.count(before + b":")
        if found > MOST_MEMBERS:
            raise TooLarge(f"the request body has more than {MOST_MEMBERS:,} members. Send fewer.")
