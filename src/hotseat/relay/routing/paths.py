"""PURE: the rules of each path: required role, whether it takes a slot of the server; and its error format.

One table serves access control and slots. The lookup uses the method and the path as forwarded, byte by
byte: a path in any other spelling is not found, and needs the role `operate`. Roles exist only if `apiKeys` is set.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING

from hotseat.error_bodies import Dialect
from hotseat.relay.routing.other_apis import VERSIONLESS, endpoint_in_other_api, rule_in_other_api
from hotseat.relay.routing.path_rules import ACTS, LISTS, LOOKS, NO_KEY, STRICTEST, WATCHES, PathRule
from hotseat.settings import ErrorFormat, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.ollama.requests import Endpoint
    from hotseat.relay.http.request_head import RequestHead

READING = (b"GET", b"HEAD")
OPEN_TO_ALL = (b"/health", b"/hotseat/ready")
"""For load balancers, which rarely have a key."""
FOLDERS = (b"/hotseat/", b"/upstream/", b"/ui/")
METRICS = (b"/metrics", b"/metrics/upstreams")
FEEDS = frozenset((b"/hotseat/events", b"/hotseat/traffic", b"/hotseat/logs", b"/hotseat/fleet/logs"))
"""Logs are feeds only if they are followed; else the response ends at once."""
IN_CONTRACT = frozenset((b"/health", b"/running", b"/swagger", b"/metrics", b"/v1/models"))
OWN_PAGES = IN_CONTRACT | {b"/metrics/upstreams"}


# The APIs of OpenAI and Anthropic, then llama.cpp, vLLM, SGLang, text-embeddings-inference, whisper.cpp and
# stable-diffusion.cpp.
COMPUTING = """
    /v1/chat/completions /v1/completions /v1/embeddings /v1/responses /v1/moderations /v1/messages
    /v1/audio/speech /v1/audio/transcriptions /v1/audio/translations
    /v1/images/generations /v1/images/edits /v1/images/variations
    /v1/rerank /v1/reranking /v1/score /v1/classify /v1/pooling
    /completion /completions /chat/completions /responses /infill /embedding /embeddings /rerank /reranking
    /v2/rerank /score /classify /pooling /generate /encode /embed /inference
    /sdapi/v1/txt2img /sdapi/v1/img2img
"""
"""POST; the server computes a response."""
LOOKING_UP = "/v1/messages/count_tokens /v1/token/encode /v1/token/decode /tokenize /detokenize /apply-template"
"""POST; answered even if all slots are taken."""
SUBSCRIBING = "/v1/audio/voices /v1/realtime"
DESCRIBING = "/health /v1/health /props /models /v1/models"
"""GET. Not forwarded to peers, since some name a peer's other models. Paths that show other clients' activity, such as
/slots and /metrics, need the role `operate`."""


def _rows(
    method: bytes, paths: str, *, takes_slot: bool = False, goes_to_peers: bool = True
) -> dict[tuple[bytes, bytes], PathRule]:
    rule = PathRule(Role.INFERENCE, takes_slot, goes_to_peers=goes_to_peers)
    return {(method, path): rule for path in paths.encode().split()}


INFERENCE = {
    **_rows(b"POST", COMPUTING, takes_slot=True),
    **_rows(b"POST", LOOKING_UP),
    **_rows(b"GET", SUBSCRIBING),
    **_rows(b"GET", DESCRIBING, goes_to_peers=False),
}
"""All that the role `inference` may use on a model server."""


class PathTable:
    """The rules of all paths, including `inferencePaths`. `is_strict`: other programs' APIs are not answered here."""

    def __init__(self, inference_paths: Iterable[str] = (), *, is_strict: bool = False) -> None:
        added = " ".join(inference_paths)
        self.is_strict = is_strict
        self.is_ollamas = False
        """Does the bare address say that Ollama is running?"""
        self._inference = {**_rows(b"POST", added, takes_slot=True), **_rows(b"GET", added), **INFERENCE}

    def at_ollamas_address(self) -> PathTable:
        table = copy(self)
        table.is_ollamas = True
        return table

    def of_model(self, method: bytes, target: bytes) -> PathRule:
        """The rule of a target that is forwarded to a model server."""
        path = target.partition(b"?")[0]
        listed = self._inference.get((b"GET" if method == b"HEAD" else method, path))
        return listed or (LOOKS if method in READING else ACTS)

    def of_ours(self, method: bytes, path: bytes, query: bytes = b"") -> PathRule | None:
        """The rule of a path that hotseat answers itself, whichever models run; None if it is forwarded."""
        return rule_of_ours(method, path) if self.is_ours(method, path) else self.in_other_api(method, path, query)

    def is_ours(self, method: bytes, path: bytes) -> bool:
        """Is it in the contract's own API, or in ours?"""
        if path.startswith(b"/hotseat/"):
            return True
        own = IN_CONTRACT if self.is_strict else OWN_PAGES
        return method in READING and (path in own or (path.startswith(b"/v1/models/") and not self.is_strict))

    def in_other_api(self, method: bytes, path: bytes, query: bytes = b"") -> PathRule | None:
        """The same for the APIs of other programs alone."""
        return None if self.is_strict else rule_in_other_api(method, path, query)

    def forwarded(self, method: bytes, target: bytes) -> bytes:
        """What a model server gets: the target as received, but llama-swap's versionless paths without their `/v`."""
        is_versionless = method == b"POST" and not self.is_strict and target.partition(b"?")[0] in VERSIONLESS
        return target.removeprefix(b"/v") if is_versionless else target

    def endpoint(self, method: bytes, path: bytes) -> Endpoint | None:
        """How requests with this path are translated for a model server; None if they are not."""
        return None if self.is_strict else endpoint_in_other_api(method, path)


ONLY_LISTED = PathTable()


def rule_of_ours(method: bytes, path: bytes) -> PathRule:
    """The rule of a path that hotseat answers itself."""
    reads = method in READING
    if reads and path in OPEN_TO_ALL:
        return NO_KEY
    if path.startswith(b"/hotseat/"):
        if not reads:
            return ACTS if _OPERATING.fullmatch(path) else STRICTEST
        return WATCHES if path in FEEDS else LOOKS
    if path.startswith(b"/upstream/"):
        return ACTS
    return LOOKS if path in METRICS else LISTS


# Each route is listed: the API decodes a path before it looks for the route, so a prefix could allow other ones too.
_OPERATING = re.compile(
    rb"/hotseat/(?:reload|yield|profiles(?:/.*)?|requests/.*|models/.*/overrides"
    rb"|fleet/hosts/[^/]+/(?:cordon|drain)|fleet/models/.*/move)"
)


def without_slash(path: bytes) -> bytes:
    """A slash at the end of a management path is ignored; the dashboard's pages are files in a folder."""
    return path if path.startswith(b"/hotseat/ui/") or path in FOLDERS else path.removesuffix(b"/")


def needs_no_key(method: bytes, path: bytes) -> bool:
    return method in READING and without_slash(path) in OPEN_TO_ALL


def path_at_model(target: bytes) -> bytes:
    """The path without the name of a model in front of it, as far as that can be told before the name is resolved."""
    path = target.partition(b"?")[0]
    return path[max(path.find(b"/v1/", len(b"/upstream/")), 0) :] if path.startswith(b"/upstream/") else path


def _is_management(method: bytes, path: bytes) -> bool:
    """As far as that can be told before a name is resolved."""
    if path.startswith(b"/upstream/"):
        return method == b"DELETE" or (method in READING and path.endswith(b"/load"))
    return path.startswith(b"/hotseat/") or (method in READING and path in IN_CONTRACT - {b"/v1/models"})


def dialect_for(head: RequestHead, error_format: ErrorFormat) -> Dialect:
    """The error format of a client: outside /v1/ always plain text, or that of hotseat's own API."""
    path = path_at_model(head.target)
    if not path.startswith(b"/v1/"):
        return Dialect.MANAGEMENT if _is_management(head.method, without_slash(path)) else Dialect.TEXT
    if error_format is not ErrorFormat.AUTO:
        return Dialect.OPENAI if error_format is ErrorFormat.OPENAI else Dialect.TEXT
    if path.startswith(b"/v1/messages"):
        return Dialect.ANTHROPIC
    agent = head.known.get(b"user-agent", b"")
    is_sdk = b"x-stainless-lang" in head.known or agent.startswith((b"OpenAI/", b"ai-sdk/")) or b" ai-sdk/" in agent
    return Dialect.OPENAI if is_sdk else Dialect.TEXT
