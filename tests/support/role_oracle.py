"""The permitted results of a request, from the configuration and the documented rules alone; calls no hotseat code.

Where the documentation leaves a choice, every harmless reading of it is permitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from tests.support.role_config import RANKS, Book, Holder, Place
from tests.support.role_other_programs import NOTHING, STARTS, STOPS_ALL, VERSIONLESS, documented, named
from tests.support.role_reading import (
    Request,
    body_names,
    can_be_renamed,
    is_ambiguous,
    json_names,
    must_be_refused,
    secrets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INFERENCE_PATHS = frozenset(
    f"/{path}"
    for path in (
        *("v1/chat/completions", "v1/completions", "v1/embeddings", "v1/responses", "v1/rerank"),
        *("v1/messages", "v1/messages/count_tokens", "v1/images/generations", "v1/images/edits"),
        *("v1/audio/transcriptions", "v1/audio/translations", "v1/audio/speech"),
        *("completion", "completions", "chat/completions", "embedding", "embeddings", "infill", "rerank", "reranking"),
        *("tokenize", "detokenize", "apply-template", "inference", "generate", "embed", "pooling", "score", "classify"),
        *("sdapi/v1/txt2img", "sdapi/v1/img2img"),
    )
)
"""With POST."""
SUBSCRIBED_PATHS = frozenset({"/v1/realtime", "/v1/audio/voices"})
"""With GET."""
DESCRIBING_PATHS = frozenset({"/health", "/v1/health", "/props", "/models", "/v1/models"})
"""With GET, and never forwarded to peers."""
READ_METHODS = ("GET", "HEAD")
FOR_ALL_MODELS = (
    r"(POST|DELETE) /hotseat/yield",
    r"POST /hotseat/profiles/.+",
    r"DELETE /hotseat/profiles",
    r"(PUT|DELETE) /hotseat/fleet/hosts/[^/]+/(cordon|drain)",
)
"""Changes that a key for all models with the role `operate` may make."""
OPERATED = (r"POST /hotseat/reload",)
"""Changes that any key with that role may make."""
OF_A_MODEL = (
    r"DELETE /hotseat/requests/[^/]+",
    r"POST /hotseat/fleet/models/.+/move",
    r"PUT /hotseat/models/.+/overrides",
)
"""Changes that need a key for that model. All other changes under /hotseat/ need `admin`."""
METRICS_PATHS = ("/metrics", "/metrics/upstreams")
OWN_PATHS = ("/health", "/running", *METRICS_PATHS, "/swagger", "/v1/models")
OLLAMA_LISTS = ("/api/version", "/api/tags", "/api/ps")
OLLAMA_TRANSLATED = {"/api/generate": "/v1/chat/completions", "/api/embeddings": "/v1/embeddings"}
"""With POST: what a model server gets instead. The bodies of the trials have a prompt."""
OLLAMA_LOADS = "/api/chat"
"""With POST, if there are no messages, as in the trials."""
OLLAMA_REFUSED = ("POST /api/pull", "POST /api/create", "POST /api/copy", "POST /api/push", "DELETE /api/delete")
"""Answered with 501, whatever the role."""
KEYLESS = ("/health", "/hotseat/ready")
ANY = "*"


@dataclass(frozen=True, slots=True)
class Refused:
    """No server received it, and nothing was done."""

    statuses: frozenset[int]


@dataclass(frozen=True, slots=True)
class Own:
    """Answered by hotseat itself, which may have started or stopped this model."""

    starts: str = ""
    stops: str = ""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """One server received it, with this target and one of these model names, if any."""

    server: str
    target: str
    names: frozenset[str]
    must_be_named: bool = False
    starts: str = ""


Outcome = Refused | Own | Forwarded


def refused(*statuses: int) -> Refused:
    return Refused(frozenset(statuses))


class Oracle:
    def __init__(self, config: Mapping[str, Any], profile: str, running: tuple[str, ...]) -> None:
        self.book = Book(config, profile)
        self.running = running
        self.default = config.get("defaultModel", "")
        added = frozenset(config["inferencePaths"])
        self.for_peers = {"POST": INFERENCE_PATHS | added, "GET": SUBSCRIBED_PATHS | added}
        self.for_all = {"POST": self.for_peers["POST"], "GET": self.for_peers["GET"] | DESCRIBING_PATHS}

    def outcomes(self, request: Request) -> list[Outcome]:
        """All permitted results."""
        malformed = [refused(400)] if is_ambiguous(request) else []
        if must_be_refused(request.path):
            return [refused(400, 401, 429)]
        if len(request.values("authorization")) > 1 or len(request.values("x-api-key")) > 1:
            return [refused(400)]
        if request.values("upgrade"):  # hotseat's own pages have no websockets
            malformed.append(refused(403))
        holder = self.holder(request)
        if holder is None:
            return [*malformed, *self._without_key(request)]
        return [*malformed, *self._of(holder, request)]

    def holder(self, request: Request) -> Holder | None:
        """Of two keys the one with the higher role counts, and of equals the one in `Authorization`."""
        known = [self.book.holders[secret] for secret in secrets(request) if secret in self.book.holders]
        return max(known, key=lambda holder: RANKS.index(holder.role), default=None)

    def _without_key(self, request: Request) -> list[Outcome]:
        if self.book.model_at(request.host) is not None:
            return [refused(401, 429)]
        if request.method in READ_METHODS and request.path.rstrip("/") in KEYLESS:
            is_exact = request.method == "GET" and request.path in KEYLESS
            return [Own()] if is_exact else [Own(), refused(401, 429)]
        return [refused(401, 429)]

    def _of(self, holder: Holder, request: Request) -> list[Outcome]:
        path = request.path
        if (model := self.book.model_at(request.host)) is not None:
            return self._at_its_own_host(holder, request, model)
        if path.startswith("/upstream/"):
            return self._under_a_name(holder, request)
        if path.startswith("/hotseat/"):
            return self._under_hotseat(holder, request.method, path)
        bare = path.rstrip("/") or "/"
        if found := documented(request.method, bare):
            return self._of_other_program(holder, request, bare, *found)
        if request.method == "POST" and VERSIONLESS.fullmatch(path):
            return self._forwarded(holder, request, path.removeprefix("/v"), self._asked(request))
        if bare in OWN_PATHS or path.startswith("/v1/models/"):
            return self._contract(holder, request, bare)
        if (ollamas := self._ollamas(holder, request, bare)) is not None:
            return ollamas
        if bare in ("/", "/hotseat"):  # a browser is redirected to the dashboard
            led = [Own()] if request.method in READ_METHODS else []
            return [*led, *self._forwarded(holder, request, path, self._asked(request))]
        return self._forwarded(holder, request, path, self._asked(request))

    # What hotseat answers itself

    def _contract(self, holder: Holder, request: Request, bare: str) -> list[Outcome]:
        if request.method not in READ_METHODS:  # not documented: refused by hotseat, or the model server's
            ours: list[Outcome] = [refused(403, 404, 405)] if request.method != "OPTIONS" else [refused(403), Own()]
            if holder.is_at_least("operate"):
                ours.append(Own())
            return [*ours, *self._forwarded(holder, request, request.path, self._asked(request))]
        if bare in METRICS_PATHS and not holder.is_at_least("operate"):
            return [refused(403)]
        if bare.startswith("/v1/models/"):
            name = unquote(bare.removeprefix("/v1/models/"))
            return [Own()] if self.book.may_ask(holder, self.book.pins.get(name, name)) else [refused(403, 404)]
        return [Own()]

    def _ollamas(self, holder: Holder, request: Request, bare: str) -> list[Outcome] | None:
        """None: not one of its routes."""
        if request.method in READ_METHODS and bare in OLLAMA_LISTS:
            return [Own()]
        if f"{request.method} {bare}" in OLLAMA_REFUSED or (
            request.method in ("HEAD", "POST") and bare.startswith("/api/blobs/")
        ):
            return [refused(501)]
        if request.method == "POST" and bare in (*OLLAMA_TRANSLATED, OLLAMA_LOADS):
            return self._ollamas_of_a_model(holder, request, bare)
        if (request.method, bare) != ("POST", "/api/show"):
            return None
        names, is_sure = body_names(request)
        deciding = names[-1:] if is_sure else names
        may = any(self.book.may_ask(holder, self.book.pins.get(name) or name) for name in deciding)
        return [*([Own()] if may else []), refused(400, 403, 404)]

    def _ollamas_of_a_model(self, holder: Holder, request: Request, bare: str) -> list[Outcome]:
        """The body is JSON whatever it is called, and nothing but its last `model` counts."""
        if not (names := json_names(request.body)):
            return [refused(400, 415), *self._of_openais(holder, request, bare, "")]
        return self._of_openais(holder, request, bare, names[-1])

    def _of_openais(self, holder: Holder, request: Request, bare: str, name: str) -> list[Outcome]:
        path = OLLAMA_TRANSLATED.get(bare, "/v1/chat/completions")
        as_sent = replace(request, target=path, fields=(("Content-Type", "application/json"),))
        outcomes = self._forwarded(holder, as_sent, path, [name])
        if bare != OLLAMA_LOADS:
            return outcomes
        loads = [Own(starts=each.starts) for each in outcomes if isinstance(each, Forwarded)]
        may_fail = [refused(400, 404, 409, 501)] if loads else []
        return [*loads, *may_fail, *(each for each in outcomes if not isinstance(each, Forwarded))]

    def _of_other_program(self, holder: Holder, request: Request, path: str, role: str, effect: str) -> list[Outcome]:
        if not holder.is_at_least(role):
            return [refused(403)]
        if effect == NOTHING or request.method == "HEAD":
            return [Own()]
        if effect == STOPS_ALL:
            return [refused(403)] if holder.models else [Own(stops=ANY)]
        if (name := named(path, request.body)) in self.book.names:
            return self._acted_on(holder, name, "starts" if effect == STARTS else "stops")
        return [Own(), refused(403)]

    def _under_hotseat(self, holder: Holder, method: str, path: str) -> list[Outcome]:
        if path.rstrip("/") == "/hotseat/ready" and method in READ_METHODS:
            return [Own()]
        if not holder.is_at_least("operate"):
            return [refused(403)]
        if method in READ_METHODS:
            return [Own()]
        if method == "OPTIONS":
            return [Own(), refused(403, 405)]
        stops = ANY if unquote(path).rstrip("/") == "/hotseat/yield" else ""
        exact, decoded = (self._changes(holder, method, each.rstrip("/")) for each in (path, unquote(path)))
        done: list[Outcome] = [Own(stops=stops)]
        return done if exact == decoded == {True} else [*(done if True in decoded else ()), refused(400, 403, 404, 405)]

    def _changes(self, holder: Holder, method: str, path: str) -> set[bool]:
        """Whether this holder may do it; both if that depends on the object."""

        def is_one_of(forms: tuple[str, ...]) -> bool:
            return any(re.fullmatch(form, f"{method} {path}") for form in forms)

        if holder.models and is_one_of(FOR_ALL_MODELS):
            return {False}
        if holder.models and is_one_of(OF_A_MODEL):
            return {True, False}
        return {holder.is_at_least("admin") or is_one_of((*FOR_ALL_MODELS, *OPERATED, *OF_A_MODEL))}

    # Forwarded requests

    def _at_its_own_host(self, holder: Holder, request: Request, model: str) -> list[Outcome]:
        """Every path is the server's. Where a profile redirects the name, the server has no pages."""
        if model in self.book.pins:
            return [refused(403, 404)]
        return self._forwarded(holder, request, request.path, [model])

    def _under_a_name(self, holder: Holder, request: Request) -> list[Outcome]:
        rest = request.path.removeprefix("/upstream/")
        found: list[Outcome] = []
        for name, after in self._named_in(rest):
            if request.method == "DELETE" and after in ("", "/"):
                found += self._acted_on(holder, name, "stops")
            elif request.method in READ_METHODS and after in ("/load", "/load/"):
                found += self._acted_on(holder, name, "starts")
            else:
                if not after:
                    found.append(refused(301, 302, 307, 308))
                found += self._forwarded(holder, request, after or "/", [name])
        return found or [refused(400, 403, 404, 405)]

    def _named_in(self, rest: str) -> list[tuple[str, str]]:
        """The longest name that the rest of a path begins with, as written and decoded."""
        cuts = [mark.start() for mark in re.finditer(r"/|$", rest)]
        plain = [(rest[:cut], rest[cut:]) for cut in cuts if rest[:cut] in self.book.names]
        decoded = [(unquote(rest[:cut]), rest[cut:]) for cut in cuts if unquote(rest[:cut]) in self.book.names]
        return list(dict.fromkeys(plain[-1:] + decoded[-1:]))

    def _acted_on(self, holder: Holder, name: str, what: str) -> list[Outcome]:
        """A load or an unload of the model itself, whatever profile is active."""
        if not holder.is_at_least("operate"):
            return [refused(403)]
        if not self.book.may_ask(holder, name):
            return [refused(403)]
        ends = self.book.ends(name)
        if self.book.names[name] in self.book.config["models"]:
            return [Own(**{what: ends[0].name})]
        return [Own(), refused(400, 403, 404, 409), *(Own(**{what: end.name}) for end in ends if not end.is_peer)]

    def _asked(self, request: Request) -> list[str]:
        """The name that decides, or every candidate if the documentation does not say."""
        in_query = [value for key, value in parse_qsl(request.query, keep_blank_values=True) if key == "model"]
        in_body, is_sure = body_names(request)
        if in_body and in_body[-1] and is_sure:
            return in_body[-1:]
        if in_body or len(in_query) > 1:
            return list(dict.fromkeys([*in_body, *in_query, ""]))
        return in_query or [""]

    def _forwarded(self, holder: Holder, request: Request, path: str, asked: Iterable[str]) -> list[Outcome]:
        if not is_listed(self.for_all, request.method, path) and not holder.is_at_least("operate"):
            return [refused(403, *([400, 404] if self._may_lead_nowhere(asked) else []))]
        return [outcome for name in asked for outcome in self._led(holder, request, path, name)]

    def _may_lead_nowhere(self, asked: Iterable[str]) -> bool:
        return any(self.book.pins.get(name, name) not in self.book.names for name in asked)

    def _led(self, holder: Holder, request: Request, path: str, name: str) -> list[Outcome]:
        if not name:
            return self._unnamed(holder, request, path)
        if name not in self.book.names:
            return [refused(404, 400, 403)] if holder.models else [refused(404)]
        if name in self.book.pins:
            return self._pinned(holder, request, path, name)
        if not self.book.may_ask(holder, name):
            return [refused(403)]
        found = [outcome for end in self.book.ends(name) for outcome in self._sent(request, path, end, name)]
        if self.book.names[name] in self.book.pins:  # the model is pinned; this is its alias
            found += self._pinned(holder, request, path, self.book.names[name])
        return found

    def _pinned(self, holder: Holder, request: Request, path: str, name: str) -> list[Outcome]:
        to = self.book.pins[name]
        if to is None:
            return [refused(403, 404, 405, 503)]
        if not self.book.may_ask(holder, to):
            return [refused(403)]
        return [outcome for end in self.book.ends(to) for outcome in self._sent(request, path, end, name)]

    def _unnamed(self, holder: Holder, request: Request, path: str) -> list[Outcome]:
        found: list[Outcome] = []
        is_v1 = path.startswith("/v1/")
        if is_v1 and self.default:
            found += self._led(holder, request, path, self.default)
            if self.default in self.book.pins and self.book.may_ask(holder, self.default):  # undocumented which counts
                found += self._sent(request, path, self.book.places[self.default], "")
        if is_v1 and (not self.default or not request.body):
            found.append(refused(400))
        if not is_v1 or request.method != "POST":
            if not self.running:
                found.append(refused(400, 403, 404, 503))
            for model in self.running:
                may = self.book.may_ask(holder, model)
                found += self._sent(request, path, self.book.places[model], "") if may else [refused(403)]
        return found

    def _sent(self, request: Request, path: str, place: Place, name: str) -> list[Outcome]:
        target = place.prefix + path + request.target[len(request.path) :]
        if place.is_peer:
            return self._sent_to_peer(request, path, place, target)
        said, is_sure = body_names(request)
        names = {place.sent_name} if place.sent_name and is_sure else {*said, name, place.name, place.sent_name}
        outcome = Forwarded(place.server, target, frozenset(names), starts=place.name)
        is_page = request.path.startswith("/upstream/") or self.book.model_at(request.host) is not None
        if is_page and re.search(r"\.(js|json|css|png|gif|jpg|jpeg|ico|txt)$", path):
            return [outcome if place.name in self.running else refused(404, 409, 503)]
        return [outcome]

    def _sent_to_peer(self, request: Request, path: str, place: Place, target: str) -> list[Outcome]:
        if not is_listed(self.for_peers, request.method, path):
            return [refused(403)]
        if not can_be_renamed(request):
            return [refused(400, 415)]
        return [Forwarded(place.server, target, frozenset({place.sent_name}), must_be_named=True)]


def is_listed(paths: Mapping[str, frozenset[str]], method: str, path: str) -> bool:
    return path in paths.get("GET" if method == "HEAD" else method, ())
