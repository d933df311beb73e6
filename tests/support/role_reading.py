"""A request, and what its receivers may read in it: keys, model names, and ambiguous parts."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from email import message_from_bytes
from urllib.parse import parse_qsl, unquote


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    host: str = "box"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]


def secrets(request: Request) -> list[str]:
    """All keys that were sent, the one in `Authorization` first."""
    found = []
    for value in request.values("authorization"):
        scheme, _, rest = value.partition(" ")
        if scheme.lower() == "bearer":
            found.append(rest.strip())
        elif scheme.lower() == "basic":
            found.append(base64.b64decode(rest).decode("latin-1").partition(":")[2])
    found += [value.strip() for value in request.values("x-api-key")]
    return [secret for secret in found if secret]


def must_be_refused(path: str) -> bool:
    """Dot segments, plain or encoded, backslashes and control characters."""
    segments = re.split(r"/|%2f", path, flags=re.IGNORECASE)
    return any(unquote(segment) in (".", "..") for segment in segments) or bool(re.search(r"[\\\x00-\x1f\x7f]", path))


def is_ambiguous(request: Request) -> bool:
    """Spellings that may be refused as malformed before they are interpreted."""
    odd = re.search(r"//|;|#|%(?:[01][0-9a-f]|7f|5c|2f)|%(?![0-9a-f]{2})", request.path, flags=re.IGNORECASE)
    names, is_sure = body_names(request)
    return bool(odd) or not is_sure or "" in names


def can_be_renamed(request: Request) -> bool:
    """Whether the body is unambiguous, so that a peer's own name for the model can replace the client's."""
    kind = (request.values("content-type") or [""])[0]
    return not request.body or not (request.values("content-encoding") or kind == "application/x-www-form-urlencoded")


def body_names(request: Request) -> tuple[list[str], bool]:
    """All candidates for the model's name in a body, and whether the documentation says that it counts."""
    kind = (request.values("content-type") or [""])[0]
    if not request.body:
        return [], True
    if request.values("content-encoding"):
        return [], False
    if kind.startswith("multipart/form-data"):
        names = multipart_names(kind, request.body)
        return names, len(names) == 1
    if kind == "application/x-www-form-urlencoded":
        return [value for key, value in parse_qsl(request.body.decode()) if key == "model"], False
    return json_names(request.body), kind == "application/json"


def json_names(body: bytes) -> list[str]:
    try:
        pairs = json.loads(body, object_pairs_hook=list)
    except ValueError:
        return []
    return [value if isinstance(value, str) else "" for key, value in pairs if key == "model"]


def names_in_any_case(body: bytes) -> list[str]:
    """As servers written in Go read them."""
    try:
        pairs = json.loads(body, object_pairs_hook=list)
    except ValueError:
        return []
    return [str(value) for key, value in pairs if key.lower() == "model"]


def multipart_names(kind: str, body: bytes) -> list[str]:
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts = message.get_payload() if message.is_multipart() else []
    return [
        part.get_payload(decode=True).decode()  # type: ignore[union-attr]
        for part in parts
        if part.get_param("name", header="content-disposition") == "model"  # type: ignore[union-attr]
    ]
