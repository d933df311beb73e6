"""A hub on this machine that speaks the protocol of Hugging Face's: an API, and a storage at another host.

Listings are at /api/models/ORG/REPO, files at /ORG/REPO/resolve/COMMIT/FILE, which redirects to the storage with
X-Linked-ETag, X-Linked-Size and X-Repo-Commit. The storage knows ETag, Range and If-Range and requires no token.
`Troubles` make it fail as real servers do.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

from hotseat.downloads.library import constants

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pytest

COMMIT = "c0ffee" + "0" * 34
BLOCK = 1 << 18
RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Content:
    """The bytes of a file: some that are given, then zeros that are made when they are sent."""

    given: bytes
    zeros: int = 0
    announced: str = ""
    """Its SHA-256 in the listing, if it is not to be computed because nobody downloads the whole file."""

    @property
    def size(self) -> int:
        return len(self.given) + self.zeros

    @cached_property
    def sha256(self) -> str:
        if self.announced:
            return self.announced
        digest = hashlib.sha256()
        for block in self.blocks(0, self.size):
            digest.update(block)
        return digest.hexdigest()

    def blocks(self, start: int, end: int) -> Iterator[bytes]:
        zeros = bytes(BLOCK)
        while start < end:
            until = min(end, start + BLOCK)
            block = self.given[start:until]
            yield block + zeros[: until - start - len(block)]
            start = until


@dataclass
class Troubles:
    """What goes wrong from now on; counters count down."""

    busy: int = 0
    """So many answers are 429 with Retry-After."""
    retry_after: str = "1"
    cuts: int = 0
    """So many bodies of the storage end after `cut_after` bytes."""
    cut_after: int = 0
    ignores_ranges: bool = False
    ignores_if_range: bool = False
    no_etag: bool = False
    pages: int = 0
    """So many answers to ranges are pages of six bytes with the status 200."""
    wrong_ranges: int = 0
    """So many ranges begin elsewhere than requested."""
    corrupt: bool = False
    sends_more: bool = False
    moved_to: str = ""
    """The storage redirects to this address."""
    held_after: int | None = None
    """Bodies stop after so many bytes, until `released` is set."""


@dataclass(frozen=True)
class Asked:
    place: str
    method: str
    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""


@dataclass
class LocalHub:
    repositories: dict[str, dict[str, Content]]
    token: str = ""
    """If set, the API and the redirects require it."""
    troubles: Troubles = field(default_factory=Troubles)
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    """Bytes of files that the storage has sent."""
    listing: tuple[bytes, str] | None = None
    """What is sent instead of a listing, and its Content-Encoding."""
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    storage: str = ""

    def environment(self, home: object) -> dict[str, str]:
        """Of a program that uses this hub, with its cache below `home`."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": f"{home}/hf", "HF_TOKEN": self.token}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[LocalHub]
    place: ClassVar[str]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.hub.asked.append(
            Asked(self.place, self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
        )
        with suppress(ConnectionError, TimeoutError):
            if self.hub.troubles.busy:
                self.hub.troubles.busy -= 1
                return self._say(429, {"Retry-After": self.hub.troubles.retry_after})
            if self.place == "storage":
                return self._blob()
            if self.hub.token and self.headers["Authorization"] != f"Bearer {self.hub.token}":
                return self._say(401, {"X-Error-Message": "Invalid username or password."})
            return self._hub()
        return None

    def _say(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # The hub

    def _hub(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            return self._listing("/".join(path.split("/")[3:5]))
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        return self._resolve(name, rest.partition("/")[2])

    def _listing(self, name: str) -> None:
        if name not in self.hub.repositories:
            return self._say(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        if self.hub.listing:
            body, encoding = self.hub.listing
            return self._say(200, {"Content-Type": "application/json", "Content-Encoding": encoding}, body)
        siblings = [_sibling(file, content) for file, content in self.hub.repositories[name].items()]
        said = {"id": name, "modelId": name, "sha": COMMIT, "private": False, "tags": [], "siblings": siblings}
        return self._say(200, {"Content-Type": "application/json"}, json.dumps(said).encode())

    def _resolve(self, name: str, file: str) -> None:
        content = self.hub.repositories.get(name, {}).get(file)
        if content is None:
            return self._say(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        headers = {
            "Location": f"{self.hub.storage}/{quote(name)}/{content.sha256}?{quote(file)}",
            "X-Repo-Commit": COMMIT,
            "X-Linked-ETag": f'"{content.sha256}"',
            "X-Linked-Size": str(content.size),
            "ETag": '"0123456789abcdef0123456789abcdef01234567"',
        }
        return self._say(302, headers)

    # The storage

    def _blob(self) -> None:
        files = [content for files in self.hub.repositories.values() for content in files.values()]
        wanted = urlsplit(self.path).path.rpartition("/")[2]
        if self.hub.troubles.pages and "Range" in self.headers:
            self.hub.troubles.pages -= 1
            return self._say(200, {}, b"<html>")
        if self.hub.troubles.moved_to:
            return self._say(302, {"Location": f"{self.hub.troubles.moved_to}/{wanted}"})
        content = next((each for each in files if wanted in (each.sha256, f"{each.sha256}.gguf")), None)
        if content is None:
            return self._say(404, {})
        return self._send(content, *self._part(content))

    def _part(self, content: Content) -> tuple[int, int, bool]:
        said = RANGE.fullmatch(self.headers.get("Range", ""))
        is_same = (
            self.hub.troubles.ignores_if_range
            or self.headers.get("If-Range", f'"{content.sha256}"') == f'"{content.sha256}"'
        )
        if not said or not is_same or self.hub.troubles.ignores_ranges:
            return 0, content.size, False
        return int(said[1]), min(int(said[2]) + 1, content.size) if said[2] else content.size, True

    def _send(self, content: Content, start: int, end: int, is_part: bool) -> None:
        troubles = self.hub.troubles
        if start >= content.size:
            return self._say(416, {"Content-Range": f"bytes */{content.size}"})
        self.send_response(206 if is_part else 200)
        if not troubles.no_etag:
            self.send_header("ETag", f'"{content.sha256}"')
        self.send_header("Accept-Ranges", "bytes")
        if is_part and troubles.wrong_ranges and start:
            troubles.wrong_ranges -= 1
            start -= 1
        if is_part:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{content.size}")
        self.send_header("Content-Length", str(end - start + 7 * troubles.sends_more))
        self.end_headers()
        if self.command != "HEAD":
            self._body(content, start, end)
        return None

    def _body(self, content: Content, start: int, end: int) -> None:
        troubles, sent = self.hub.troubles, 0
        cut = troubles.cut_after if troubles.cuts and end - start > BLOCK else None
        troubles.cuts -= cut is not None
        for block in content.blocks(start, end):
            if cut is not None and sent >= cut:
                self.close_connection = True
                self.connection.close()
                return
            if troubles.held_after is not None and sent >= troubles.held_after:
                self.hub.released.wait()
            self.wfile.write(bytes([block[0] ^ 1]) + block[1:] if troubles.corrupt and end - start > BLOCK else block)
            sent += len(block)
            self.hub.sent += len(block)
        if troubles.sends_more:
            self.wfile.write(b"surplus")


def _sibling(file: str, content: Content) -> dict[str, Any]:
    if not file.endswith(".gguf"):
        return {"rfilename": file, "size": content.size, "blobId": "0" * 40}
    lfs = {"sha256": content.sha256, "size": content.size, "pointerSize": 135}
    return {"rfilename": file, "size": content.size, "blobId": "0" * 40, "lfs": lfs}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left early is no error; the usual text would be in what a test reads."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _serve(hub: LocalHub, place: str, tls: ssl.SSLContext | None) -> _Server:
    handler = type("Handler", (_Handler,), {"hub": hub, "place": place})
    server = _Server(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


@contextmanager
def local_hub(
    repositories: dict[str, dict[str, Content]], token: str = "", tls: ssl.SSLContext | None = None
) -> Iterator[LocalHub]:
    """`tls` is for the storage only, which also serves SHA256.gguf as files of their own."""
    hub = LocalHub(repositories, token)
    api, storage = _serve(hub, "hub", None), _serve(hub, "storage", tls)
    hub.url = f"http://127.0.0.1:{api.server_port}"
    hub.storage = f"{'https' if tls else 'http'}://localhost:{storage.server_port}"
    try:
        yield hub
    finally:
        hub.released.set()
        for server in (api, storage):
            server.shutdown()
            server.server_close()


def use(hub: LocalHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make huggingface_hub in this process use the hub; it reads its environment only once."""
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_TOKEN", hub.token)
