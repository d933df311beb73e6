"""Applies the configured changes to a JSON body on its way to the upstream.

Members stay raw bytes, so that big integers, long floats and nested strings leave exactly as they came.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import ClientError
from hotseat.relay.http.json_errors import why_not_json
from hotseat.relay.http.json_limits import SMALL, check_inner, check_members, check_values

if TYPE_CHECKING:
    from hotseat.catalog.spec import BodyChanges

Members = dict[str, msgspec.Raw]

read_members = msgspec.json.Decoder(Members).decode
_write = msgspec.json.encode

_OTHER_MODELS = {"".join(letters) for letters in product(*zip("model", "MODEL", strict=True))} - {"model"}
_NULL = msgspec.Raw(b"null")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BEFORE_AN_OBJECT = b" \t\r\n\x00\xef\xbb\xbf\xfe\xff"


def rewrite_json(body: bytes, changes: BodyChanges, members: Members | None = None) -> bytes:
    """Rename the model, strip members, then set members; unchanged if the body is not an object.

    `members` are those of the body, if it was decoded already.
    """
    if not changes:
        return body
    if members is None:
        members = _members_to_change(body)
    if members is None:
        return body
    if changes.model_name:
        _name(members, changes.model_name)
    for path in changes.strip:
        if not _leads_into_model(path):
            _strip(members, path.split("."))
    for path, value in changes.set.items():
        if not _leads_into_model(path):
            _set(members, path.split("."), value)
    return _write(members)


def _members_to_change(body: bytes) -> Members | None:
    if len(body) > SMALL:
        check_members(body)
        check_values(body)
    return _members_of(body)


def _members_of(raw: bytes) -> Members | None:
    try:
        return read_members(raw.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        # An upstream with a more lenient parser might read it, and a stripped parameter would slip through.
        if raw.lstrip(BEFORE_AN_OBJECT).startswith(b"{"):
            raise ClientError(f"the request body is not valid JSON: {why_not_json(problem, raw)}") from problem
        return None


def _name(members: Members, model: str) -> None:
    """Servers written in Go match `model` case-insensitively."""
    for name in _OTHER_MODELS & members.keys():
        del members[name]
    members["model"] = _raw(model)


def _leads_into_model(path: str) -> bool:
    """Filters must not change the model."""
    return path.partition(".")[0] == "model"


def _strip(members: Members, steps: list[str]) -> bool:
    """Returns whether there was anything to strip."""
    first, *further = steps
    if not further:
        return members.pop(first, None) is not None
    inner = _inner_members(members, first)
    if inner is None or not _strip(inner, further):
        return False
    members[first] = _raw(inner)
    return True


def _set(members: Members, steps: list[str], value: Any) -> None:
    first, *further = steps
    if not further:
        members[first] = _raw(value)
        return
    inner = _inner_members(members, first) or {}
    _set(inner, further, value)
    members[first] = _raw(inner)


def _inner_members(members: Members, name: str) -> Members | None:
    raw = bytes(members.get(name, _NULL))
    check_inner(raw, name)
    return _members_of(raw)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_write(value))
