"""PURE: the rule of a path: who may use it, and what it costs."""

from __future__ import annotations

from msgspec import Struct

from hotseat.settings import Role


class PathRule(Struct, frozen=True):
    """One row of a table of paths."""

    role: Role | None
    """The lowest role that may use it; None: no key is needed."""
    takes_slot: bool = False
    """The server computes for it, so it waits for a free slot."""
    is_action: bool = False
    """It changes something, so it is written to the audit log."""
    goes_to_peers: bool = False


NO_KEY = PathRule(None)
LISTS = PathRule(Role.INFERENCE)
LOADS = PathRule(Role.INFERENCE, is_action=True)
"""As any request for a model may; it evicts nothing that such a request does not."""
LOOKS = PathRule(Role.OPERATE)
ACTS = PathRule(Role.OPERATE, is_action=True)
STRICTEST = PathRule(Role.ADMIN, is_action=True)
