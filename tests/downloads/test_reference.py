"""What users name for a download."""

from __future__ import annotations

import pytest

from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.reference import HubReference, UrlReference, is_safe, parse

HUB = "https://hub.example"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("org/repo", HubReference("org/repo")),
        ("org/Repo-1.5_B-GGUF:Q4_K_M", HubReference("org/Repo-1.5_B-GGUF", "Q4_K_M")),
        ("org/repo:sub/file.gguf", HubReference("org/repo", "sub/file.gguf")),
        ("https://host/a/m%20x.gguf?sig=1", UrlReference("https://host/a/m%20x.gguf?sig=1", "m x.gguf")),
        (f"{HUB}/org/repo/blob/main/sub/m.gguf", HubReference("org/repo", "sub/m.gguf")),
        (f"{HUB}/org/repo/resolve/main/m.gguf?download=true", HubReference("org/repo", "m.gguf")),
    ],
)
def test_a_repository_a_part_of_it_or_a_file(text: str, meant: object) -> None:
    """The address bar of a hub's page names a file of its repository."""
    assert parse(text, HUB) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "qwen",
        "a/b/c",
        "../b",
        "a/..",
        "a/b\n",
        "a/b c",
        "org/my--model",
        "org/model-",
        "org/model.git",
        "https://host:abc/m.gguf",
        "https://host/m-${HOME}.gguf",
        "http://host/m.gguf",
        "ftp://host/m.gguf",
        "https:///m.gguf",
        "https://host/",
        "https://host/m.bin",
        "https://host/..%2f.gguf",
        "https://host/%2e%2e/.gguf",
        "https://host/a%0ab.gguf",
        "https://user:secret@host/m.gguf",
        "https://[bad/m.gguf",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Nothing is asked of any server."""
    with pytest.raises(DownloadProblem):
        parse(text, HUB)


@pytest.mark.parametrize("place", ["host", "host:abc", "[bad"])
def test_a_password_in_a_url_is_not_repeated(place: str) -> None:
    """The message goes to terminals and logs."""
    with pytest.raises(DownloadProblem) as refused:
        parse(f"https://user:secret@{place}/m.gguf")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "../m.gguf",
        "/etc/m.gguf",
        "a//m.gguf",
        "a/./m.gguf",
        ".m.gguf",
        "a\x1b[2J.gguf",
        "a\\b.gguf",
        "${X}.gguf",
        "x" * 300,
    ],
)
def test_a_path_that_leaves_its_folder_or_cannot_be_listed_is_unsafe(path: str) -> None:
    """Names come from a server."""
    assert not is_safe(path)
