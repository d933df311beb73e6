"""Files of a hub, fetched through everything that goes wrong on the way."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import resource
import tracemalloc
from typing import TYPE_CHECKING

import httpx2
import pytest
from huggingface_hub import try_to_load_from_cache
from tests.support.local_hub import COMMIT, Content

from hotseat.downloads import hub as hub_module
from hotseat.downloads.hub import Repository, repository
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.transfer import Patience, disk_problem, in_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.local_hub import LocalHub

    from hotseat.downloads.variants import RemoteFile

MIB = 1 << 20


class Fetch:
    """One download, with what it said and how long it would have waited."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.pauses: list[float] = []
        self.seen: list[int] = []

    @property
    def patience(self) -> Patience:
        return Patience(self.messages.append, self.pauses.append)

    def __call__(self) -> Path:
        found, file = self.file()
        return found.download(file, self.patience, self.seen.append)

    def file(self) -> tuple[Repository, RemoteFile]:
        found = repository("test/one", self.patience)
        return found, found.files[0]


@pytest.fixture
def fetch() -> Fetch:
    return Fetch()


def content(hub: LocalHub) -> Content:
    return hub.repositories["test/one"]["m.gguf"]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_arrives_in_the_hubs_cache(hub: LocalHub, fetch: Fetch) -> None:
    """Other programs find it there by its name; the progress ends at its size."""
    file = fetch()

    named = hub_module.cache() / f"models--test--one/snapshots/{COMMIT}/m.gguf"
    assert sha256(file) == content(hub).sha256 == sha256(named)
    assert (fetch.seen[0], fetch.seen[-1]) == (0, content(hub).size)
    assert fetch.messages == []


def test_the_token_goes_to_the_hub_only(hub: LocalHub, fetch: Fetch) -> None:
    """The storage is another host; nothing is asked besides the listing and the file."""
    fetch()

    tokens = {(asked.place, asked.headers.get("authorization")) for asked in hub.asked}
    assert tokens == {("hub", "Bearer hf_secret"), ("storage", None)}
    assert all(asked.path.startswith(("/api/models/test/one?", "/test/one/")) for asked in hub.asked)


def test_the_name_in_the_cache_is_a_relative_link_that_the_library_finds(hub: LocalHub, fetch: Fetch) -> None:
    """The cache can be moved, and the hub is not asked again when the bytes are there."""
    fetch()
    named = hub_module.cache() / f"models--test--one/snapshots/{COMMIT}/m.gguf"
    requests = [(asked.place, asked.method) for asked in hub.asked]

    assert os.readlink(named) == f"../../blobs/{content(hub).sha256}"
    assert try_to_load_from_cache("test/one", "m.gguf", hub_module.cache(), COMMIT) == str(named)
    assert requests == [("hub", "GET"), ("hub", "HEAD"), ("storage", "GET")]


def test_a_hub_that_fails_after_the_last_byte_does_not_matter(hub: LocalHub, fetch: Fetch) -> None:
    """The file is verified by then."""
    found, file = fetch.file()

    def gone(there: int) -> None:
        if there == file.size:
            hub.repositories.clear()

    assert sha256(found.download(file, fetch.patience, gone)) == file.sha256


def test_what_is_there_is_not_fetched_again(hub: LocalHub, fetch: Fetch) -> None:
    """The hub is asked for its names only."""
    first, before = fetch(), hub.sent
    again = fetch()

    assert (again, hub.sent) == (first, before)


def test_a_broken_connection_continues_where_it_broke(hub: LocalHub, fetch: Fetch) -> None:
    """Three times in a row, as each time brings it further."""
    hub.troubles.cuts, hub.troubles.cut_after = 3, MIB // 2
    file = fetch()

    assert sha256(file) == content(hub).sha256
    assert hub.sent == content(hub).size
    assert fetch.pauses == [1.0, 1.0, 1.0]


def test_a_partial_file_of_a_killed_process_is_continued(hub: LocalHub, fetch: Fetch) -> None:
    """Only the rest is fetched, and the whole is verified."""
    found, file = fetch.file()
    part = found.part(file)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"".join(content(hub).blocks(0, 2 * MIB)))
    missing = found.missing(file)

    assert sha256(fetch()) == content(hub).sha256
    assert hub.sent == missing == content(hub).size - 2 * MIB
    assert not part.exists()


@pytest.mark.parametrize("left", [b"x" * (2 * MIB), b"x" * (9 * MIB)], ids=["other bytes", "too many bytes"])
def test_a_partial_file_of_something_else_is_not_used(hub: LocalHub, fetch: Fetch, left: bytes) -> None:
    """Its SHA-256 differs, so it is deleted; the next attempt begins anew."""
    found, file = fetch.file()
    part = found.part(file)
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    try:
        fetched = fetch()
    except DownloadProblem:
        fetched = fetch()

    assert sha256(fetched) == content(hub).sha256


def test_a_file_with_another_sha256_is_deleted(hub: LocalHub, fetch: Fetch) -> None:
    """Nothing of it is left in the cache."""
    hub.troubles.corrupt = True
    with pytest.raises(DownloadProblem, match=r"m\.gguf is not what the hub announced"):
        fetch()

    assert [name for _, _, names in os.walk(hub_module.cache()) for name in names] == []


def test_a_server_that_sends_more_than_it_announced_is_cut_off(hub: LocalHub, fetch: Fetch) -> None:
    """The announced size was compared with the free space."""
    hub.troubles.sends_more = True
    with pytest.raises(DownloadProblem, match="sent more than the"):
        fetch()


def test_a_busy_hub_is_asked_again_when_it_says(hub: LocalHub, fetch: Fetch) -> None:
    """429 of the listing and of the file; the wait is that of Retry-After."""
    hub.troubles.busy, hub.troubles.retry_after = 2, "7"
    file = fetch()

    assert sha256(file) == content(hub).sha256
    assert fetch.pauses == [7.0, 7.0]
    assert fetch.messages[0] == "test/one: the server limits the number of requests (429); next attempt in 7 s"


def test_a_hub_that_stays_busy_is_given_up(hub: LocalHub, fetch: Fetch) -> None:
    """After five waits."""
    hub.troubles.busy = 99
    with pytest.raises(DownloadProblem, match="limits the number of requests"):
        fetch()

    assert len(fetch.pauses) == 5


def test_a_wait_of_an_hour_is_left_to_the_user(hub: LocalHub, fetch: Fetch) -> None:
    """Nobody watches a command for so long."""
    hub.troubles.busy, hub.troubles.retry_after = 1, "3600"
    with pytest.raises(DownloadProblem, match="asks to wait 3600 s; run the same command later"):
        fetch()


@pytest.mark.parametrize("trouble", ["ignores_ranges", "wrong_ranges"])
def test_a_server_with_broken_ranges_still_gives_the_file(hub: LocalHub, fetch: Fetch, trouble: str) -> None:
    """The file begins anew instead of being put together from the wrong parts."""
    hub.troubles.cuts, hub.troubles.cut_after = 1, MIB
    setattr(hub.troubles, trouble, 1)

    assert sha256(fetch()) == content(hub).sha256


def test_a_page_instead_of_the_rest_loses_nothing(hub: LocalHub, fetch: Fetch) -> None:
    """Such as the page of a proxy: the next attempt continues."""
    hub.troubles.cuts, hub.troubles.cut_after, hub.troubles.pages = 1, MIB, 1

    assert sha256(fetch()) == content(hub).sha256
    assert hub.sent == content(hub).size
    assert fetch.messages[-1].startswith("m.gguf: the server sent 6 bytes instead of the file; next attempt")


def test_a_server_that_sends_the_same_beginning_again_and_again_is_given_up(hub: LocalHub, fetch: Fetch) -> None:
    """Even if it is sometimes longer than the last time."""
    hub.troubles.ignores_ranges, hub.troubles.cuts, hub.troubles.cut_after = True, 20, MIB
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        hub.troubles.cut_after = MIB if len(pauses) % 2 else MIB // 2

    found, file = fetch.file()
    with pytest.raises(DownloadProblem, match=r"m\.gguf: "):
        found.download(file, Patience(fetch.messages.append, pause), fetch.seen.append)

    assert len(pauses) < 10


def test_an_address_of_a_hub_that_is_no_url_is_an_error_at_once(
    hub: LocalHub, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt would not help."""
    monkeypatch.setattr("hotseat.downloads.library.constants.ENDPOINT", "http://host:abc")
    with pytest.raises(DownloadProblem, match=r"test/one: the server cannot be reached \(Invalid port"):
        fetch()

    assert fetch.pauses == []


LISTINGS = {
    "nested": (b"[" * 200_000, "identity"),
    "a number of 5,000 digits": (b'{"sha": ' + b"9" * 5_000 + b"}", "identity"),
    "no object": (b"[1]", "identity"),
    "files that are none": (json.dumps({"sha": COMMIT, "siblings": 5}).encode(), "identity"),
    "long": (b" " * (20 * MIB), "identity"),
    "compressed": (gzip.compress(b" " * (50 * MIB)), "gzip"),
}


@pytest.mark.parametrize("kind", LISTINGS)
def test_a_listing_that_no_hub_sends(hub: LocalHub, fetch: Fetch, kind: str) -> None:
    """It is an error at once, and takes little memory."""
    hub.listing = LISTINGS[kind]
    tracemalloc.start()
    try:
        with pytest.raises(DownloadProblem, match="did not answer like a hub"):
            fetch.file()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 45 * MIB  # the hub is in this process
    assert fetch.pauses == []


def test_a_repository_with_terms() -> None:
    """Whoever has not accepted them is told so."""
    request = httpx2.Request("GET", "https://hub/api/models/test/one")
    refused = httpx2.Response(403, headers={"X-Error-Code": "GatedRepo"}, request=request)
    with pytest.raises(httpx2.HTTPStatusError) as problem:
        refused.raise_for_status()

    assert "accept its terms on its page" in str(in_words(problem.value, "test/one"))


def refused_token(hub: LocalHub) -> None:
    hub.token = "another"


def no_repository(hub: LocalHub) -> None:
    hub.repositories.clear()


@pytest.mark.parametrize(
    ("happens", "message"),
    [
        (
            refused_token,
            "test/one: the server refused access (401); check the spelling, or if it is private, set",
        ),
        (no_repository, "test/one does not exist at the server; check the spelling"),
    ],
)
def test_a_refusal_says_what_to_do(
    hub: LocalHub, fetch: Fetch, happens: Callable[[LocalHub], None], message: str
) -> None:
    """And never contains the token."""
    happens(hub)
    with pytest.raises(DownloadProblem) as refused:
        fetch()

    assert str(refused.value).startswith(message)
    assert "hf_secret" not in str(refused.value)
    assert fetch.pauses == []


def test_a_server_that_does_not_exist_is_named_after_five_attempts(
    hub: LocalHub, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network may come back."""
    monkeypatch.setattr("hotseat.downloads.library.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DownloadProblem, match="test/one: the server cannot be reached"):
        fetch()

    assert fetch.pauses == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_disk_that_takes_no_more_keeps_what_it_has(hub: LocalHub, fetch: Fetch) -> None:
    """Once there is space, the same command continues."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, hard))
    try:
        with pytest.raises(DownloadProblem, match=r"m\.gguf cannot be written: File too large"):
            fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found, file = fetch.file()
    missing, before = found.missing(file), hub.sent

    assert missing < content(hub).size - MIB
    assert sha256(fetch()) == content(hub).sha256
    assert hub.sent - before == missing


def test_a_full_disk_is_called_one() -> None:
    """With the next step."""
    problem = disk_problem(OSError(errno.ENOSPC, "No space left on device"), "m.gguf")

    assert str(problem) == "the disk is full; free some space and run the same command: m.gguf continues there"


def test_two_downloads_of_one_file_do_not_mix(hub: LocalHub, fetch: Fetch) -> None:
    """The second one is told to wait."""
    found, file = fetch.file()
    second: list[str] = []

    def meanwhile(there: int) -> None:
        if there and not second:
            with pytest.raises(DownloadProblem, match="another process is downloading") as refused:
                found.download(file, fetch.patience, lambda _: None)
            second.append(str(refused.value))

    found.download(file, fetch.patience, meanwhile)
    assert second
