"""Headers that hotseat adds to a model server's response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.error_bodies import one_line

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds

WORTH_REPORTING_S: Seconds = 0.1
"""Shorter waits need no explanation."""


def lines_about_waiting(waited_for: str, waited_s: Seconds) -> list[bytes]:
    """Explains to the client why it had to wait."""
    if not waited_for or waited_s < WORTH_REPORTING_S:
        return []
    return [b"Hotseat-Waited: %.3f" % waited_s, b"Hotseat-Why: %b" % one_line(waited_for, 200).encode()]
