"""Which model a request means, decided once, on the bytes received.

The target is never decoded and put together again: what goes upstream is the very suffix that came in. Bodies are
read for their `model` alone; multipart.py is the counterpart for forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import msgspec

from hotseat.errors import ClientError, UnknownModel, did_you_mean

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.leads import Lead
    from hotseat.relay.head import RequestHead

UPSTREAM = b"/upstream/"
FRONT_DOORS = frozenset((b"/", b"/ui"))
COMFYUI = b"/comfyui/"
"""Where llama-swap shows the web pages of a model called comfyui_auto, so we do if there is one."""
OWN_PAGES = frozenset((b"/health", b"/running", b"/swagger", b"/metrics", b"/v1/models"))

LONGEST_NAME = 1024
"""In a URL, with what is before it; bounds the work that a target made of slashes can cause."""
LONGEST_QUOTE = 120
MOST_NAMES_TOLD = 20


class Road(Enum):
    MANAGEMENT = "management"
    MODEL_IN_URL = "model in url"
    MODEL_IN_BODY = "model in body"
    RUNNING_MODEL = "running model"


# Bound once, because Python 3.11 takes as long to look up a member of an enum as to make a call.
MANAGEMENT: Final = Road.MANAGEMENT
MODEL_IN_BODY: Final = Road.MODEL_IN_BODY


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes. `target` is what the upstream is asked for, byte by byte as received."""

    road: Road
    target: bytes
    lead: Lead | None = None
    """What the URL names."""


def road_for(head: RequestHead, catalog: Catalog) -> Destination:
    """`find_road`, but people who open the bare address in a browser are led to the dashboard."""
    if head.target in FRONT_DOORS and head.is_navigation:
        return Destination(MANAGEMENT, head.target)
    return find_road(head.method, head.target, catalog)


def find_road(method: bytes, target: bytes, catalog: Catalog) -> Destination:
    """Says who answers; raises for targets that two parsers could read in two ways and for models nobody configured."""
    path, _, query = target.partition(b"?")
    if _SUSPECT.search(target) or not target.startswith(b"/"):
        _refuse_ambiguous(target, path)
    if path.startswith(UPSTREAM):
        return _road_to_upstream(method, target, path, catalog)
    if _is_ours(method, path):
        return Destination(MANAGEMENT, target)
    if path.startswith(COMFYUI) and (comfyui := catalog.lead("comfyui_auto")):
        return Destination(Road.MODEL_IN_URL, target[len(COMFYUI) - 1 :], comfyui)
    if b"model=" in query and (name := _model_in_query(query)):
        return Destination(Road.MODEL_IN_URL, target, _configured(name, catalog))
    if method == b"POST" or (method in (b"PUT", b"PATCH") and not path.startswith(b"/v1/")):
        return Destination(MODEL_IN_BODY, target)
    return Destination(Road.RUNNING_MODEL, target)


# A quick look at the whole target; only what it stops at is looked at closely.
_SUSPECT = re.compile(rb"[\x00-\x20\x7f\\#]|/\.|%(?:[01]|2e|2f\.|5c|7f)", re.IGNORECASE)
_RAW_CONTROL = re.compile(rb"[\x00-\x20\x7f#]")
_ODD_BYTE = re.compile(rb"\\|%(?:[01][0-9a-f]|5c|7f)", re.IGNORECASE)
# `;` ends a segment too: some servers cut path parameters off before they resolve dots.
_DOT_SEGMENT = re.compile(rb"(?:/|%2f)(?:\.|%2e){1,2}(?:[/;]|%2f|\Z)", re.IGNORECASE)


def _refuse_ambiguous(target: bytes, path: bytes) -> None:
    if not target.startswith(b"/"):
        raise ClientError("the request target must be a path that begins with a slash")
    if _RAW_CONTROL.search(target) or _ODD_BYTE.search(path):
        raise ClientError("the path holds a control character, a space, a backslash or a `#`; send it without")
    if _DOT_SEGMENT.search(path):
        raise ClientError('the path holds a "." or ".." segment; send the path it stands for')


def _is_ours(method: bytes, path: bytes) -> bool:
    if path.startswith(b"/hotseat/"):
        return True
    return method in (b"GET", b"HEAD") and (path in OWN_PAGES or path.startswith(b"/v1/models/"))


def _road_to_upstream(method: bytes, target: bytes, path: bytes, catalog: Catalog) -> Destination:
    start = len(UPSTREAM)
    end = len(path) if len(path) <= LONGEST_NAME else path.rfind(b"/", start, LONGEST_NAME)
    while end > start:
        name = _decoded(path[start:end])
        if lead := catalog.lead(name):
            return _road_to_known(method, target, path[end:], target[end:], lead)
        end = path.rfind(b"/", start, end)
    if method == b"DELETE" or (method == b"GET" and path.endswith(b"/load")):
        return Destination(MANAGEMENT, target)
    raise _unknown_in_url(path[start:], catalog)


def _road_to_known(method: bytes, target: bytes, path: bytes, suffix: bytes, lead: Lead) -> Destination:
    if (method, path) in ((b"GET", b"/load"), (b"DELETE", b"")):
        return Destination(MANAGEMENT, target, lead)
    return Destination(Road.MODEL_IN_URL, suffix if path else b"/" + suffix, lead)


def _unknown_in_url(rest: bytes, catalog: Catalog) -> UnknownModel:
    """Where the name ends is a guess: its first segment, but a near miss may reach further."""
    segments = [_decoded(segment) for segment in rest.split(b"/", 3)[:3]]
    names = list(catalog.names())
    guesses = (_short("/".join(segments[:count])) for count in range(1, len(segments) + 1))
    hint = next((hint for guess in guesses if (hint := did_you_mean(guess, names))), "")
    return UnknownModel(f'model "{_short(segments[0])}" is not defined in the configuration.{hint}')


def _model_in_query(query: bytes) -> str | None:
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if key == b"model" and value:
            return _decoded(value.replace(b"+", b" "))
    return None


def _decoded(raw: bytes) -> str:
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


# The model in a JSON body.


class _Named(msgspec.Struct, gc=False):
    model: str | msgspec.UnsetType = msgspec.UNSET


_read_named = msgspec.json.Decoder(_Named).decode


def model_in_json(body: bytes) -> str | None:
    """The `model` member, the last one where there are several; None where there is none; raises for anything odd."""
    try:
        model = _read_named(body).model
    except msgspec.ValidationError as problem:
        raise ClientError(f"the request body must be a JSON object with a string as `model`: {problem}") from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        what = f"is not valid JSON: {problem}" if body else "is empty; send JSON with a `model` field"
        raise ClientError(f"the request body {what}") from problem
    except RecursionError as problem:
        raise ClientError("the request body is nested too deeply") from problem
    if model is msgspec.UNSET:
        return None
    if not model:
        raise ClientError("`model` in the request body is empty; name a model")
    return model


def lenient_model_in_json(body: bytes) -> str | None:
    """The `model` of a body that may be anything at all; None unless it is an object that names one."""
    try:
        return model_in_json(body)
    except ClientError:
        return None


def name_for_v1(named: str | None, catalog: Catalog) -> Lead:
    """The model a request under /v1/ is for: the one it names, the default, or the only one there is."""
    if named is not None:
        return _configured(named, catalog)
    if catalog.default_model is not None:
        return catalog.resolve(catalog.default_model)
    if only := catalog.only_model():
        return only
    raise ClientError(f"`model` is missing in the request. Name one of: {_told_names(catalog)}")


def _configured(name: str, catalog: Catalog) -> Lead:
    if lead := catalog.lead(name):
        return lead
    if not name:
        raise ClientError("`model` is empty; name a model")
    return catalog.follow(_short(name))


def _short(name: str) -> str:
    """A client's text, fit to be quoted back."""
    return name if len(name) <= LONGEST_QUOTE else name[:LONGEST_QUOTE] + "…"


def _told_names(catalog: Catalog) -> str:
    listed = [spec.name for spec in islice(catalog.listed(), MOST_NAMES_TOLD + 1)]
    return ", ".join(listed[:MOST_NAMES_TOLD]) + (", …" if len(listed) > MOST_NAMES_TOLD else "")
