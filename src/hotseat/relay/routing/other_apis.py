"""PURE: what hotseat answers of the APIs of other programs: an exact list of methods and paths.

Their users point their tools at hotseat. Every other path is forwarded as it is, and with `passthrough: strict` these
are too.
"""

from __future__ import annotations

from hotseat.relay.routing.path_rules import LISTS, PathRule

OLLAMA: dict[tuple[bytes, bytes], PathRule] = {(b"GET", b"/api/version"): LISTS}


def rule_in_other_api(method: bytes, path: bytes) -> PathRule | None:
    """The rule of a path of another program's API that hotseat answers; None if it is forwarded."""
    return OLLAMA.get((b"GET" if method == b"HEAD" else method, path))
