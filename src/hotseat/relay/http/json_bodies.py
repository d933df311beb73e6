"""PURE: reads JSON bodies, limits what that costs, and applies the configured changes on the way to the upstream.

Members stay raw bytes, so that big integers, long floats and nested strings leave exactly as they came. Decoding blocks
all other requests, in a thread too, so its work is limited before to less than a tenth of a second: commas, colons and
escapes inside strings count too, since a string with that many fits into no context.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import ClientError, TooLarge
from hotseat.settings import KiB

if TYPE_CHECKING:
    from hotseat.catalog.spec import BodyChanges

SMALL = 256 * KiB
"""Smaller bodies are cheap, whatever they contain."""
MOST_VALUES = 300_000
MOST_ESCAPES = 1_000_000
MOST_MEMBERS = 25_000
"""Of an object that is changed: each becomes a Python object."""

Members = dict[str, msgspec.Raw]

read_members = msgspec.json.Decoder(Members).decode
_write = msgspec.json.encode

_OTHER_MODELS = {"".join(letters) for letters in product(*zip("model", "MODEL", strict=True))} - {"model"}
"""Servers written in Go match the name case-insensitively."""
_NULL = msgspec.Raw(b"null")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BEFORE_AN_OBJECT = b" \t\r\n\x00\xef\xbb\xbf\xfe\xff"
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def check_values(body: bytes) -> None:
    """There is a comma between two values. An escape takes as long as ten other characters."""
    for mark, most, what in ((b",", MOST_VALUES, "values"), (b"\\", MOST_ESCAPES, "escaped characters")):
        # `bytes.count` looks at each byte; this finds the next one ten times as fast, and few bodies have many.
        if len(body) > 2 * most and len(body) - len(body.replace(mark, b"", most + 1)) > most:
            raise TooLarge(f"the request body has more than {most:,} {what}. Send fewer.")


def has_few_members(body: bytes) -> bool:
    """There is a colon in each member."""
    return body.count(b":") <= MOST_MEMBERS


def why_not_json(problem: Exception, body: bytes) -> str:
    """The decoder reports the first half of a surrogate pair as the end of the input."""
    if "truncated" in str(problem) and (half := _HALF_PAIR.search(body, 0, SMALL)):  # more would take too long
        where = f"{half.group().decode()} (byte {half.start()})"
        return f"{where} is half of a surrogate pair, which is not a character. Send both halves or neither"
    return str(problem)


def rewrite_json(body: bytes, changes: BodyChanges, members: Members | None = None) -> bytes:
    """Rename the model, strip members, then set members; unchanged if the body is not an object.

    `members` are those of the body, if it was decoded already.
    """
    if not changes:
        return body
    if members is None and (members := _members_to_change(body)) is None:
        return body
    if changes.model_name:
        for name in _OTHER_MODELS & members.keys():
            del members[name]
        members["model"] = _raw(changes.model_name)
    for steps in (path.split(".") for path in changes.strip):
        if steps[0] != "model":  # filters must not change it
            _strip(members, steps)
    for steps, value in ((path.split("."), value) for path, value in changes.set.items()):
        if steps[0] != "model":
            _set(members, steps, value)
    return _write(members)


def _members_to_change(body: bytes) -> Members | None:
    if len(body) > SMALL:
        if not has_few_members(body):
            text = f"the request body has more than {MOST_MEMBERS:,} colons, too many to be changed"
            raise TooLarge(f"{text} (useModelName, filters). Send fewer, or remove those settings from the model.")
        check_values(body)
    return _members_of(body)


def may_be_object(body: bytes) -> bool:
    """Might a lenient parser find an object at the beginning? Not all of a body that begins with blanks is searched."""
    begun = body[:SMALL].lstrip(BEFORE_AN_OBJECT)
    return begun.startswith(b"{") or (not begun and len(body) >= SMALL)


def _members_of(raw: bytes) -> Members | None:
    try:
        return read_members(raw.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        # An upstream with a more lenient parser might read it, and a stripped parameter would slip through.
        if may_be_object(raw):
            raise ClientError(f"the request body is not valid JSON: {why_not_json(problem, raw)}") from problem
        return None


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
    if len(raw) > SMALL:  # each path into it decodes it again
        raise TooLarge(f"`{name}` in the request body is larger than {SMALL // KiB} KiB, too large to be changed.")
    return _members_of(raw)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_write(value))
