"""The token by which a restarted host of a fleet shows that it has had its name before."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.state.state_file import FORMAT

if TYPE_CHECKING:
    from hotseat.state.state_file import StateFile

FLEET = "fleet.json"
"""In the state directory."""
BYTES = 32


def fleet_token(file: StateFile) -> str:
    """The token of this state directory, made at the first call. If it cannot be saved, it is another one each time."""
    kept = file.read().get("token")
    if isinstance(kept, str) and len(kept) == 2 * BYTES:
        return kept
    made = token_hex(BYTES)
    file.write({"format": FORMAT, "token": made})
    return made
