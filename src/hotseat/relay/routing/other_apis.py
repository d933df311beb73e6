"""PURE: what hotseat answers or translates of the APIs of other programs: an exact list of methods and paths.

Their users point their tools at hotseat. Every other path is forwarded as it is, and with `passthrough: strict` these
are too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.ollama.requests import ENDPOINTS
from hotseat.relay.routing.path_rules import ACTS, LISTS, LOOKS, WATCHES, PathRule
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.ollama.requests import Endpoint

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
    (b"POST", b"/api/blobs/*"): LISTS,
    (b"HEAD", b"/api/blobs/*"): LISTS,
}
OLLAMA_IS_RUNNING = b"/api"
"""The path in the management API of what the bare address of Ollama says; clients reach it only there."""

LLAMA_CPP_ROUTER: dict[tuple[bytes, bytes], PathRule] = {
    (b"GET", b"/models"): LISTS,
    (b"POST", b"/models"): ACTS,
    (b"DELETE", b"/models"): ACTS,
    (b"POST", b"/models/load"): ACTS,
    (b"POST", b"/models/unload"): ACTS,
    (b"GET", b"/models/sse"): PathRule(Role.INFERENCE, is_feed=True),
    (b"GET", b"/props"): LISTS,
}
PROPS = b"/props"
"""Of the running model, as the contract says, unless the query has the option that only the router knows."""
_ASKS_ROUTER = re.compile(rb"(?:^|&)autoload=(?!(?:true|1)(?:&|$))").search

LLAMA_SWAP: dict[tuple[bytes, bytes], PathRule] = {
    (b"GET", b"/unload"): ACTS,
    (b"GET", b"/logs"): LOOKS,
    (b"GET", b"/logs/stream"): WATCHES,
    (b"GET", b"/logs/stream/*"): WATCHES,
    (b"POST", b"/api/models/unload"): ACTS,
    (b"POST", b"/api/models/unload/*"): ACTS,
    (b"GET", b"/api/events"): WATCHES,
    (b"GET", b"/api/metrics"): LOOKS,
    (b"GET", b"/api/metrics/activity"): LOOKS,
    (b"GET", b"/ui"): LISTS,
    (b"GET", b"/ui/*"): LISTS,
    (b"GET", b"/upstream"): LISTS,
}
"""A `*` is any text, such as the name of a model; the API finds out what it means."""

VERSIONLESS = frozenset(
    b"/v/" + name
    for name in (
        b"chat/completions", b"responses", b"completions", b"messages", b"messages/count_tokens", b"embeddings",
        b"rerank", b"reranking",
    )
)  # fmt: skip
"""POST. llama-swap forwards them without `/v`, to servers whose paths have no version."""

OTHER_APIS = {"Ollama": OLLAMA, "llama.cpp's router": LLAMA_CPP_ROUTER, "llama-swap": LLAMA_SWAP}


EXACT = {row: rule for api in OTHER_APIS.values() for row, rule in api.items() if b"*" not in row[1]}
PATTERNS = [
    (re.compile(b"%b %b" % (method, path.replace(b"*", b".*"))).fullmatch, rule)
    for api in OTHER_APIS.values()
    for (method, path), rule in api.items()
    if b"*" in path
]


def rule_in_other_api(method: bytes, path: bytes, query: bytes = b"") -> PathRule | None:
    """The rule of a path of another program's API that hotseat answers; None if it is forwarded."""
    if path == PROPS and not _ASKS_ROUTER(query):
        return None
    return _rule_in_lists(method, path) or (_rule_in_lists(b"GET", path) if method == b"HEAD" else None)


def _rule_in_lists(method: bytes, path: bytes) -> PathRule | None:
    if (exact := EXACT.get((method, path))) is not None:
        return exact
    asked = b"%b %b" % (method, path)
    return next((rule for is_meant, rule in PATTERNS if is_meant(asked)), None)


def endpoint_in_other_api(method: bytes, path: bytes) -> Endpoint | None:
    """What a model server answers after a translation."""
    return ENDPOINTS.get(path) if method == b"POST" else None
