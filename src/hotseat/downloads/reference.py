"""What `hotseat pull` is asked for: a repository of a hub, one quantisation or file of it, or a file by its URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from hotseat.downloads.problems import DownloadProblem

PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
REPOSITORY = re.compile(rf"(?!.*(?:\.\.|--|\.git$)){PART}/{PART}")
"""As a hub accepts them."""
PAGE = re.compile(r"/([^/]+/[^/]+)/(?:resolve|blob)/main/(.+\.gguf)")
"""The path of a file's page or download link at a hub."""
GGUF = ".gguf"
LONGEST_NAME = 200
EXAMPLES = "name ORG/REPO, ORG/REPO:QUANT, ORG/REPO:FILE.gguf or https://HOST/FILE.gguf"


@dataclass(frozen=True, slots=True)
class HubReference:
    repository: str
    wanted: str = ""
    """A quantisation such as Q4_K_M, or the name of a file; empty: what fits."""

    def __str__(self) -> str:
        return f"{self.repository}:{self.wanted}" if self.wanted else self.repository


@dataclass(frozen=True, slots=True)
class UrlReference:
    url: str
    name: str
    """The file's name, from the URL's path."""

    def __str__(self) -> str:
        return self.url


Reference: TypeAlias = HubReference | UrlReference


def parse(text: str, hub: str = "") -> Reference:
    """`hub` is the address of the hub: links to its files are files of its repositories."""
    if "://" in text:
        return _from_url(text, hub)
    repository, _, wanted = text.partition(":")
    if not is_repository(repository):
        raise DownloadProblem(f'"{text}" is not a reference to a model: {EXAMPLES}')
    return HubReference(repository, wanted)


def is_repository(text: str) -> bool:
    return bool(REPOSITORY.fullmatch(text))


def _from_url(text: str, hub: str) -> Reference:
    try:
        url = urlsplit(text)
        _ = url.port  # raises if it is no number
    except ValueError:
        raise DownloadProblem("the URL is not valid: check its host and its port") from None  # it may have a password
    page = PAGE.fullmatch(unquote(url.path))
    if page and hub and url.netloc == urlsplit(hub).netloc and is_repository(page[1]):
        return HubReference(page[1], page[2])
    if url.scheme != "https" or not url.hostname:
        raise DownloadProblem(f'"{text}" is not an https:// URL; hotseat downloads over https only')
    if url.username is not None:
        raise DownloadProblem("the URL contains a password, which would be stored with the file: leave it out")
    name = unquote(url.path).rpartition("/")[2]
    if not is_safe(name) or not name.endswith(GGUF):
        raise DownloadProblem(f'"{text}" does not end with the name of a .gguf file; {EXAMPLES}')
    return UrlReference(text, name)


def is_safe(path: str) -> bool:
    """Whether a path of another program's making stays below its folder, can be printed, and has no macro."""
    has_syntax = "\\" in path or "${" in path
    return path.isprintable() and not has_syntax and all(_is_plain(part) for part in path.split("/"))


def _is_plain(part: str) -> bool:
    return bool(part) and not part.startswith(".") and len(part.encode()) <= LONGEST_NAME
