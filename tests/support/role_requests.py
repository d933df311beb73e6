"""Requests of every caller, to every path, with every method, that name a model in every way."""

from __future__ import annotations

import base64
import gzip
import json
import random
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.support.role_oracle import DESCRIBING_PATHS, INFERENCE_PATHS, SUBSCRIBED_PATHS
from tests.support.role_paths import ENCODED_OWN, MANAGED, NAMES, NESTED, ODD_NAMES, UNUSUAL
from tests.support.role_reading import Request
from tests.support.role_world import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Fields = tuple[tuple[str, str], ...]

SECRETS = {str(key["key"]).removeprefix("key-of-"): str(key["key"]) for key in KEYS}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
UNKNOWN = "a-key-of-somebody-else"


def bearer(secret: str) -> Fields:
    return (("Authorization", f"Bearer {secret}"),)


def api_key(secret: str) -> Fields:
    return (("x-api-key", secret),)


def basic(secret: str) -> Fields:
    return (("Authorization", "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()),)


WAYS: tuple[Callable[[str], Fields], ...] = (
    bearer,
    api_key,
    basic,
    lambda secret: bearer(secret) + api_key(UNKNOWN),
    lambda secret: api_key(secret) + bearer(UNKNOWN),
    lambda secret: bearer(secret) + api_key(secret),
    lambda secret: bearer(secret) + api_key(SECRETS["inference-alpha"]),
    lambda secret: basic(SECRETS["inference"]) + api_key(secret),
    lambda secret: (*bearer(secret), ("Hotseat-Key", SECRETS["admin"])),
    lambda secret: bearer(secret) + bearer(SECRETS["admin"]),
    lambda secret: bearer(UNKNOWN) + bearer(secret),
)
WITHOUT_KEY: dict[str, tuple[Fields, ...]] = {
    "nobody": ((),),
    "unknown": (bearer(UNKNOWN), api_key(UNKNOWN), basic(UNKNOWN)),
    "empty": (bearer(""), api_key(""), basic(""), (("Authorization", "Bearer"),), (("Authorization", ""),)),
}


@dataclass(frozen=True, slots=True)
class Naming:
    """How a request names its model."""

    url: str = ""
    query: str = ""
    body: bytes = b""
    kind: str = "application/json"
    more: Fields = ()


IN_ONE_LINE = "application/x-www-form-urlencoded"
COMPRESSED = (("Content-Encoding", "gzip"),)


def body_of(**members: object) -> bytes:
    return json.dumps({"prompt": "hello", **members}).encode()


def multipart(*names: str) -> Naming:
    parts = [f'--cut\r\nContent-Disposition: form-data; name="model"\r\n\r\n{name}\r\n' for name in names]
    file = '--cut\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    return Naming(body="".join([*parts, file, "--cut--\r\n"]).encode(), kind="multipart/form-data; boundary=cut")


def segment(name: str) -> str:
    return quote(name, safe="/")


def url(name: str) -> str:
    return f"/upstream/{segment(name)}"


def ways_to_name(name: str, other: str) -> dict[str, Naming]:
    return {**one_name(name), **two_names(name, other), **hard_to_read(name, other)}


def one_name(name: str) -> dict[str, Naming]:
    said, query = body_of(model=name), f"model={quote(name)}"
    return {
        "body": Naming(body=said),
        "query": Naming(query=query),
        "query, body without": Naming(query=query, body=body_of()),
        "URL": Naming(url=url(name)),
        "URL, slashes encoded": Naming(url="/upstream/" + quote(name, safe="")),
        "URL, all encoded": Naming(url="/upstream/" + "".join(f"%{ord(sign):02x}" for sign in name)),
        "URL, body without": Naming(url=url(name), body=body_of()),
        "form": multipart(name),
        "escaped": Naming(body=said.replace(b'"model"', b'"mod\\u0065l"')),
        "JSON called text": Naming(body=said, kind="text/plain"),
        "JSON called nothing": Naming(body=said, kind=""),
        "form in one line": Naming(body=f"{query}&x=1".encode(), kind=IN_ONE_LINE),
    }


def two_names(name: str, other: str) -> dict[str, Naming]:
    """Two names that differ."""
    said, unlike, form = body_of(model=name), body_of(model=other), multipart(other)
    query, second = f"model={quote(name)}", f"model={quote(other)}"
    return {
        "body, query": Naming(body=said, query=second),
        "body, encoded query": Naming(body=said, query=f"%6d{second[1:]}"),
        "body twice": Naming(body=unlike[:-1] + b"," + said[1:]),
        "query twice": Naming(query=f"{query}&{second}"),
        "query, form": Naming(query=query, body=form.body, kind=form.kind),
        "query, list in body": Naming(query=query, body=body_of(model=[other])),
        "form twice": multipart(name, other),
        "URL, body": Naming(url=url(name), body=unlike),
        "URL, query": Naming(url=url(name), query=second),
        "URL, query, body": Naming(url=url(name), query=second, body=unlike),
        "URL, form": Naming(url=url(name), body=form.body, kind=form.kind),
        "body, other case": Naming(body=said[:-1] + b',"Model":' + json.dumps(other).encode() + b"}"),
    }


def hard_to_read(name: str, other: str) -> dict[str, Naming]:
    """One name where it counts, and another where a server might look that parses more than hotseat does."""
    unlike, query = body_of(model=other), f"model={quote(name)}"
    return {
        "URL, compressed": Naming(url=url(name), body=gzip.compress(unlike, mtime=0), more=COMPRESSED),
        "URL, JSON called text": Naming(url=url(name), body=unlike, kind="text/plain"),
        "URL, JSON called bytes": Naming(url=url(name), body=unlike, kind="application/octet-stream"),
        "URL, JSON called nothing": Naming(url=url(name), body=unlike, kind=""),
        "URL, form in one line": Naming(url=url(name), body=f"model={quote(other)}".encode(), kind=IN_ONE_LINE),
        "query, JSON called bytes": Naming(query=query, body=unlike, kind="application/octet-stream"),
    }


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of requests per caller and path, and the random generator."""

    seed: int
    each: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A request, and how it was generated."""

    caller: str
    path: str
    naming: str
    request: Request


def requests(plan: Plan, own_routes: Sequence[str]) -> Iterator[Trial]:
    """Combine every caller with every path, first with the methods that matter most; the rest is random."""
    rng = random.Random(plan.seed)
    listed = (*INFERENCE_PATHS, *SUBSCRIBED_PATHS, *DESCRIBING_PATHS, "/my/generate")
    for number in range(plan.each):
        callers = (*WITHOUT_KEY, *SECRETS) if number == 0 else tuple(SECRETS)
        for path, caller in product(sorted((*listed, *MANAGED, *UNUSUAL)), callers):
            yield of_a_model(rng, caller, path, method_of(rng, number, ("POST", "GET")))
        for path, caller in product((*own_routes, *ENCODED_OWN, "/", "/ui", *NESTED), callers):
            second = rng.choice(("POST", "DELETE", "PUT"))
            yield of_hotseat(rng, caller, path, method_of(rng, number, ("GET", second)))


def method_of(rng: random.Random, number: int, first: tuple[str, ...]) -> str:
    return first[number] if number < len(first) else rng.choice((*METHODS, *first))


def of_a_model(rng: random.Random, caller: str, path: str, method: str) -> Trial:
    name = rng.choice(NAMES) if rng.random() < 0.9 else rng.choice(ODD_NAMES)
    ways = {"none": Naming(), "none, with a body": Naming(body=body_of()), **ways_to_name(name, rng.choice(NAMES))}
    way = rng.choice([*ways])
    return Trial(caller, path, way, assembled(rng, caller, method, path, ways[way]))


def of_hotseat(rng: random.Random, caller: str, path: str, method: str) -> Trial:
    filled = path.replace("{}", segment(rng.choice(NAMES)))
    ways = {"none": Naming(), "query": Naming(query="model=beta"), "body": Naming(body=body_of(model="beta"))}
    way = rng.choice(("none", "none", "query", "body"))
    return Trial(caller, path, way, assembled(rng, caller, method, filled, ways[way]))


def assembled(rng: random.Random, caller: str, method: str, path: str, naming: Naming) -> Request:
    bare, _, own = path.partition("?")
    query = "&".join(part for part in (own, naming.query) if part)
    fields = credentials(rng, caller) + naming.more
    if naming.body and naming.kind:
        fields += (("Content-Type", naming.kind),)
    if method == "GET" and not naming.body and rng.random() < 0.1:
        fields += UPGRADE
    return Request(method, naming.url + bare + ("?" + query if query else ""), fields, naming.body)


UPGRADE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Version", "13"),
)


def credentials(rng: random.Random, caller: str) -> Fields:
    if caller in WITHOUT_KEY:
        return rng.choice(WITHOUT_KEY[caller])
    return rng.choice(WAYS)(SECRETS[caller])
