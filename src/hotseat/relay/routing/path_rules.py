"""PURE: the rule of a path: who may use it, what it costs, and how much it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes


class PathRule(Struct, frozen=True):
    """One row of a table of paths.

    Whatever hotseat answers itself runs on the loop of all requests, so none of its callbacks may take 100 ms: a body
    has a limit here, and a list that can be long is a `Listing`, which is made in slices.
    """

    role: Role | None
    """The lowest role that may use it; None: no key is needed."""
    takes_slot: bool = False
    """The server computes for it, so it waits for a free slot."""
    is_action: bool = False
    """It changes something, so it is written to the audit log."""
    goes_to_peers: bool = False
    most_bytes: Bytes = 64 << 10
    """The largest body, if hotseat answers it itself; a larger one is refused at its head."""
    is_feed: bool = False
    """Its response may never end, so it counts for its key while it lasts."""


NO_KEY = PathRule(None)
LISTS = PathRule(Role.INFERENCE)
LOADS = PathRule(Role.INFERENCE, is_action=True)
"""As any request for a model may; it evicts nothing that such a request does not."""
LOOKS = PathRule(Role.OPERATE)
WATCHES = PathRule(Role.OPERATE, is_feed=True)
ACTS = PathRule(Role.OPERATE, is_action=True)
STRICTEST = PathRule(Role.ADMIN, is_action=True)
