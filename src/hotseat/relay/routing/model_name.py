"""Determines a request's model once, from the bytes received.

The target is never decoded and reassembled: the upstream gets the suffix exactly as received. Bodies are read only for
their `model`; multipart.py is the counterpart for forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hotseat.catalog.catalog import model_at
from hotseat.errors import ClientError, UnknownModel, did_you_mean
from hotseat.relay.http.json_bodies import SMALL, check_values, has_few_members, read_members, why_not_json
from hotseat.relay.routing.other_apis import OLLAMA_IS_RUNNING
from hotseat.relay.routing.path_rules import LISTS, STRICTEST
from hotseat.relay.routing.paths import ONLY_LISTED, READING, PathTable, rule_of_ours, without_slash

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel
    from hotseat.ollama.requests import Endpoint
    from hotseat.relay.http.json_bodies import Members
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.path_rules import PathRule

UPSTREAM = b"/upstream/"
HOME_PATHS = frozenset((b"/", b"/ui"))
IDLE = b"/idle"
"""The path in the management API of what the bare address says while no model runs; clients reach it only there."""
COMFYUI = b"/comfyui/"
"""Where llama-swap shows the web pages of a model called comfyui_auto; so do we if there is one."""

LONGEST_NAME = 1024
"""In a URL, with its prefix; bounds the work for a target made of slashes."""
LONGEST_QUOTE = 120
MOST_NAMES_SHOWN = 20


class PathKind(Enum):
    MANAGEMENT = "management"
    MODEL_IN_URL = "model in url"
    MODEL_IN_BODY = "model in body"
    RUNNING_MODEL = "running model"
    BARE_ADDRESS = "bare address"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
MANAGEMENT, MODEL_IN_URL, MODEL_IN_BODY, RUNNING_MODEL, BARE_ADDRESS = PathKind


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes. `target` is the upstream's target, byte by byte as received."""

    kind: PathKind
    target: bytes
    named_model: NamedModel | None = None
    """What the URL names."""
    named: str | None = None
    """What the query names, if the body takes precedence."""
    rule: PathRule = field(default=STRICTEST, compare=False)
    """Its rights and properties; the strictest unless it was looked up."""
    endpoint: Endpoint | None = None
    """How request and response are translated; None if they are not."""


def destination_for(head: RequestHead, catalog: Catalog, paths: PathTable) -> Destination:
    """`find_destination`, but browsers that open the bare address get the dashboard, and others only look at it.

    With `passthrough: strict` it is a path like any other. At a model server's own Host every path is that server's. At
    the address for Ollama's clients, the bare address says that Ollama is running, to every key, but not to pages that
    may only use models.
    """
    if head.label:
        _check_unambiguous(head.target)
        named_model, rule = model_at(head.label, catalog), paths.of_model(head.method, head.target)
        return Destination(MODEL_IN_URL, head.target, named_model, rule=rule)
    if paths.is_ollamas and head.target == b"/" and head.method in READING:
        return Destination(MANAGEMENT, OLLAMA_IS_RUNNING, rule=LISTS)
    if head.target in HOME_PATHS and head.is_navigation and not paths.is_strict:
        return Destination(MANAGEMENT, head.target, rule=rule_of_ours(head.method, head.target))
    found = find_destination(head.method, head.target, catalog, paths, has_readable_body=head.has_readable_body)
    is_bare = found.kind is RUNNING_MODEL and head.method in READING and found.target.partition(b"?")[0] == b"/"
    return replace(found, kind=BARE_ADDRESS) if is_bare and not paths.is_strict else found


def find_destination(
    method: bytes, target: bytes, catalog: Catalog, paths: PathTable = ONLY_LISTED, *, has_readable_body: bool = False
) -> Destination:
    """Raises for targets that two parsers could read differently, and for unknown models."""
    _check_unambiguous(target)
    path, _, query = target.partition(b"?")
    if path.startswith(UPSTREAM):
        return _destination_at_upstream(method, target, path, catalog, paths)
    bare = without_slash(path)
    if (ours := paths.of_ours(method, bare, query)) is not None:
        return Destination(MANAGEMENT, bare + target[len(path) :], rule=ours)
    if (endpoint := paths.endpoint(method, bare)) is not None:
        rule = paths.of_model(method, endpoint.target)
        return Destination(MODEL_IN_BODY, endpoint.target, rule=rule, endpoint=endpoint)
    if path.startswith(COMFYUI) and not paths.is_strict and (comfyui := catalog.named_model("comfyui_auto")):
        target = target[len(COMFYUI) - 1 :]
        return Destination(MODEL_IN_URL, target, comfyui, rule=paths.of_model(method, target))
    named = _model_in_query(query) if b"model=" in query else None
    target = paths.forwarded(method, target)
    rule = paths.of_model(method, target)
    # Is a body of undeclared type searched too?
    is_searched = method == b"POST" or (method in (b"PUT", b"PATCH") and not path.startswith(b"/v1/"))
    if has_readable_body or (named is None and is_searched):
        return Destination(MODEL_IN_BODY, target, named=named, rule=rule)
    if named is not None:
        return Destination(MODEL_IN_URL, target, _configured(named, catalog), rule=rule)
    return Destination(RUNNING_MODEL, target, rule=rule)


def must_name_model(head: RequestHead, destination: Destination) -> bool:
    """Is an unreadable body the client's mistake? Not if the query names the model."""
    return head.method == b"POST" and destination.named is None and destination.target.startswith(b"/v1/")


# A quick check of the whole target; only matches are checked in detail.
_SUSPECT = re.compile(rb"[\x00-\x20\x7f\\#]|/\.|%(?:[01]|2e|2f\.|5c|7f)", re.IGNORECASE)
_RAW_CONTROL = re.compile(rb"[\x00-\x20\x7f#]")
_ODD_BYTE = re.compile(rb"\\|%(?:[01][0-9a-f]|5c|7f)", re.IGNORECASE)
# `;` ends a segment too: some servers remove path parameters before they resolve dots.
_DOT_SEGMENT = re.compile(rb"(?:/|%2f)(?:\.|%2e){1,2}(?:[/;]|%2f|\Z)", re.IGNORECASE)


def _check_unambiguous(target: bytes) -> None:
    if _SUSPECT.search(target) or not target.startswith(b"/"):
        _refuse_ambiguous(target, target.partition(b"?")[0])


def _refuse_ambiguous(target: bytes, path: bytes) -> None:
    if not target.startswith(b"/"):
        raise ClientError("the request target must be a path that begins with a slash")
    if _RAW_CONTROL.search(target) or _ODD_BYTE.search(path):
        raise ClientError("the path contains a control character, a space, a backslash or a `#`; remove or encode it")
    if _DOT_SEGMENT.search(path):
        raise ClientError('the path contains a "." or ".." segment; send the resolved path')


def _destination_at_upstream(
    method: bytes, target: bytes, path: bytes, catalog: Catalog, paths: PathTable
) -> Destination:
    start = len(UPSTREAM)
    end = len(path) if len(path) <= LONGEST_NAME else path.rfind(b"/", start, LONGEST_NAME)
    while end > start:
        name = _decoded(path[start:end])
        if _loads_or_unloads(method, path[end:]):
            # Operators' names are resolved as in the API: without profiles.
            if named_model := catalog.meant(name):
                return _management(method, target, path, named_model)
        elif named_model := catalog.named_model(name):
            suffix = target[end:] if path[end:] else b"/" + target[end:]
            return Destination(MODEL_IN_URL, suffix, named_model, rule=paths.of_model(method, suffix))
        end = path.rfind(b"/", start, end)
    if method == b"DELETE" or (method in READING and without_slash(path).endswith(b"/load")):
        return _management(method, target, path)
    raise _unknown_in_url(path[start:], catalog)


def _loads_or_unloads(method: bytes, rest: bytes) -> bool:
    """Is the rest of the URL after a model's name one of our two actions on it?"""
    rest = without_slash(rest)
    return (method == b"DELETE" and not rest) or (method in READING and rest == b"/load")


def _management(method: bytes, target: bytes, path: bytes, named_model: NamedModel | None = None) -> Destination:
    bare = without_slash(path)
    return Destination(MANAGEMENT, bare + target[len(path) :], named_model, rule=rule_of_ours(method, bare))


def _unknown_in_url(rest: bytes, catalog: Catalog) -> UnknownModel:
    """Where the name ends is a guess: its first segment, but a similar name may be longer."""
    segments = [_decoded(segment) for segment in rest.split(b"/", 3)[:3]]
    names = list(catalog.names())
    guesses = (shortened("/".join(segments[:count])) for count in range(1, len(segments) + 1))
    hint = next((hint for guess in guesses if (hint := did_you_mean(guess, names))), "")
    return UnknownModel(f'model "{shortened(segments[0])}" is not defined in the configuration.', hint)


def _model_in_query(query: bytes) -> str | None:
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if key == b"model" and value:
            return _decoded(value.replace(b"+", b" "))
    return None


def with_model_in_query(target: bytes, name: str, *, needs_one: bool) -> bytes:
    """Replaces any model in the query by this one; unchanged if there is none and none is needed."""
    path, _, query = target.partition(b"?")
    pairs = query.split(b"&") if query else []
    others = [pair for pair in pairs if _decoded(pair.partition(b"=")[0].replace(b"+", b" ")) != "model"]
    if len(others) == len(pairs) and not needs_one:
        return target
    return path + b"?" + b"&".join([*others, b"model=" + quote(name, safe="").encode()])


def _decoded(raw: bytes) -> str:
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


# The model in a JSON body


class _Named(msgspec.Struct, gc=False):
    model: str | msgspec.UnsetType = msgspec.UNSET


_read_named = msgspec.json.Decoder(_Named).decode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def model_in_json(body: bytes) -> str | None:
    """The last `model` member; None if there is none; raises for anything invalid."""
    if len(body) > SMALL:
        check_values(body)
    try:
        model = _read_named(body).model
    except UNREADABLE as problem:
        raise unreadable(problem, body) from problem
    if model is msgspec.UNSET:
        return None
    if not model:
        raise ClientError("`model` in the request body is empty; name a model")
    return model


def model_and_members(body: bytes) -> tuple[str | None, Members | None]:
    """Like `model_in_json`, for a large body: also its members, so that it is decoded only once.

    An object with too many members to be changed is only searched, and has none.
    """
    if not has_few_members(body):
        return model_in_json(body), None
    check_values(body)
    try:
        members = read_members(body)
    except UNREADABLE as problem:
        raise unreadable(problem, body) from problem
    if (named := members.get("model")) is None:
        return None, members
    if len(memoryview(named)) > SMALL:
        raise ClientError("`model` in the request body is too long; name a model")
    return model_in_json(b'{"model":%b}' % bytes(named)), members


def unreadable(problem: Exception, body: bytes) -> ClientError:
    if isinstance(problem, msgspec.ValidationError):
        return ClientError(f"the request body must be a JSON object with a string as `model`: {problem}")
    if isinstance(problem, RecursionError):
        return ClientError("the request body is nested too deeply")
    why = f"is not valid JSON: {why_not_json(problem, body)}" if body else "is empty; send JSON with a `model` field"
    return ClientError(f"the request body {why}")


def name_for_v1(named: str | None, catalog: Catalog) -> NamedModel:
    """The model of a request under /v1/: the one it names, the default, or the only one."""
    if named is not None:
        return _configured(named, catalog)
    if catalog.default_model is not None:
        return catalog.resolve(catalog.default_model)
    if only := catalog.only_model():
        return only
    raise ClientError("`model` is missing in the request.", f" Name one of: {_some_names(catalog)}")


def _configured(name: str, catalog: Catalog) -> NamedModel:
    if named_model := catalog.named_model(name):
        return named_model
    if not name:
        raise ClientError("`model` is empty; name a model")
    return catalog.follow(shortened(name))


def shortened(name: str) -> str:
    """A client's text, shortened for an error message."""
    return name if len(name) <= LONGEST_QUOTE else name[:LONGEST_QUOTE] + "…"


def _some_names(catalog: Catalog) -> str:
    listed = [spec.name for spec in islice(catalog.listed(), MOST_NAMES_SHOWN + 1)]
    return ", ".join(listed[:MOST_NAMES_SHOWN]) + (", …" if len(listed) > MOST_NAMES_SHOWN else "")
