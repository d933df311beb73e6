"""PURE: what hotseat answers or translates of the APIs of other programs: an exact list of methods and paths.

Their users point their tools at hotseat. Every other path is forwarded as it is, and with `passthrough: strict` these
are too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.ollama.endpoints import ENDPOINTS
from hotseat.relay.routing.path_rules import LISTS, PathRule

if TYPE_CHECKING:
    from hotseat.ollama.endpoints import Endpoint

OLLAMA: dict[tuple[bytes, bytes], PathRule] = {
    (b"GET", b"/api/version"): LISTS,
    (b"GET", b"/api/tags"): LISTS,
    (b"GET", b"/api/ps"): LISTS,
    (b"POST", b"/api/show"): LISTS,
    # These are refused whoever sends them, with what to do instead.
    (b"POST", b"/api/pull"): LISTS,
    (b"POST", b"/api/create"): LISTS,
    (b"POST", b"/api/copy"): LISTS,
    (b"POST", b"/api/push"): LISTS,
    (b"DELETE", b"/api/delete"): LISTS,
}
OLLAMA_IS_RUNNING = b"/api"
"""The path in the management API of what the bare address of Ollama says; clients reach it only there."""
BLOBS, BLOB_METHODS = b"/api/blobs/", (b"HEAD", b"POST")
"""A digest follows; refused as well."""


def rule_in_other_api(method: bytes, path: bytes) -> PathRule | None:
    """The rule of a path of another program's API that hotseat answers; None if it is forwarded."""
    if path.startswith(BLOBS):
        return LISTS if method in BLOB_METHODS else None
    return OLLAMA.get((b"GET" if method == b"HEAD" else method, path))


def endpoint_in_other_api(method: bytes, path: bytes) -> Endpoint | None:
    """What a model server answers after a translation."""
    return ENDPOINTS.get(path) if method == b"POST" else None
