"""Files by their URL, from a server with TLS."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.local_hub import Content, local_hub

from hotseat.downloads import url_file
from hotseat.downloads.library import close_session
from hotseat.downloads.model_download import remote_file
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.reference import UrlReference, parse
from hotseat.downloads.transfer import RANGE, Patience
from hotseat.downloads.url_file import UrlFile, look_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.local_hub import LocalHub

MIB = 1 << 20
CONTENT = Content(b"begin" + bytes(range(256)) * 64, 3 * MIB)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(CERTIFICATE)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    close_session()
    with local_hub({"": {"m.gguf": CONTENT}}, tls=tls) as server:
        yield server
    close_session()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def patience(pauses: list[float]) -> Patience:
    return Patience(lambda _: None, pauses.append)


def reference(server: LocalHub, version: str = CONTENT.sha256) -> UrlReference:
    found = parse(f"{server.storage}/{version}.gguf")
    assert isinstance(found, UrlReference)
    return found


def test_a_file_arrives_under_its_name(server: LocalHub, patience: Patience, tmp_path: Path) -> None:
    """The hub's token stays at home, and no partial file is left."""
    file = look_up(reference(server), patience)
    arrived = file.download(tmp_path / "models", patience, lambda _: None)

    assert arrived.read_bytes() == b"".join(CONTENT.blocks(0, CONTENT.size))
    assert [path.name for path in arrived.parent.iterdir()] == [file.name]
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_a_broken_download_is_continued_by_the_next_command(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """The server is asked whether the file is still the same."""
    server.troubles.cuts, server.troubles.cut_after = 99, MIB
    file = look_up(reference(server), patience)
    while True:
        try:
            file.download(tmp_path, Patience(lambda _: None, give_up), lambda _: None)
        except GivenUp:
            continue
        break

    ranges = [asked.headers for asked in server.asked if "if-range" in asked.headers]
    assert (tmp_path / file.name).stat().st_size == CONTENT.size
    assert server.sent < CONTENT.size + MIB
    assert {headers["if-range"] for headers in ranges} == {f'"{CONTENT.sha256}"'}


class GivenUp(Exception):
    pass


def give_up(seconds: float) -> None:
    raise GivenUp


def test_a_partial_file_of_another_version_is_not_continued(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """Each version has a partial file of its own."""
    file = look_up(reference(server), patience)
    other = UrlFile(file.url, file.name, file.size, '"another"')

    assert file.part(tmp_path) != other.part(tmp_path)


def test_a_file_that_appears_during_the_download_is_not_replaced(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """What was downloaded is kept: the same command ends at once when the file has been moved away."""
    file = look_up(reference(server), patience)
    target = tmp_path / file.name

    def appear(there: int) -> None:
        target.write_bytes(b"mine")

    with pytest.raises(DownloadProblem, match="exists already"):
        file.download(tmp_path, patience, appear)
    kept, sent = target.read_bytes(), server.sent
    target.unlink()
    file.download(tmp_path, patience, lambda _: None)

    assert kept == b"mine"
    assert target.stat().st_size == CONTENT.size
    assert server.sent == sent


def test_a_second_download_of_a_file_without_a_version_leaves_the_first_alone(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """It starts over only what no other process is writing."""
    found = look_up(reference(server), patience)
    file = UrlFile(found.url, found.name, found.size, "")
    file.part(tmp_path).write_bytes(b"of a process that was killed")
    second: list[str] = []

    def meanwhile(there: int) -> None:
        if there and not second:
            with pytest.raises(DownloadProblem, match="another process is downloading") as refused:
                file.download(tmp_path, patience, lambda _: None)
            second.append(str(refused.value))

    arrived = file.download(tmp_path, patience, meanwhile)
    assert second
    assert arrived.read_bytes() == b"".join(CONTENT.blocks(0, CONTENT.size))


def test_two_versions_are_not_mixed_by_a_server_that_does_not_compare_them(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """Its ETag says that it would continue another version."""
    server.troubles.ignores_if_range = True
    found = look_up(reference(server), patience)
    file = UrlFile(found.url, found.name, found.size, '"of yesterday"')
    file.part(tmp_path).write_bytes(b"of yesterday")

    assert file.download(tmp_path, patience, lambda _: None).read_bytes() == b"".join(CONTENT.blocks(0, CONTENT.size))


def test_a_redirect_away_from_https_is_refused_at_any_time(
    server: LocalHub, patience: Patience, tmp_path: Path
) -> None:
    """For the plan, for the header, and for the file itself, which has no checksum."""
    file = look_up(reference(server), patience)
    with local_hub({"": {"m.gguf": CONTENT}}) as plain:
        server.troubles.moved_to = plain.storage
        for fetch in (
            lambda: look_up(reference(server), patience),
            lambda: remote_file(file).gguf(file.name),
            lambda: file.download(tmp_path / "models", patience, lambda _: None),
        ):
            with pytest.raises(DownloadProblem, match="localhost redirects to an address without https"):
                fetch()

    assert [path.stat().st_size for path in (tmp_path / "models").iterdir()] == [0]


def test_a_missing_file_is_an_error_at_once(server: LocalHub, patience: Patience, pauses: list[float]) -> None:
    """Waiting would not help."""
    with pytest.raises(DownloadProblem, match="does not exist at the server"):
        look_up(reference(server, "0" * 64), patience)

    assert pauses == []


def test_a_certificate_that_is_not_trusted_is_an_error(
    server: LocalHub, patience: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is downloaded from it."""
    monkeypatch.delenv("SSL_CERT_FILE")
    close_session()
    with pytest.raises(DownloadProblem, match=r"cannot be reached.*certificate"):
        look_up(reference(server), patience)


@pytest.mark.parametrize("name", ["Content-Range", "Content-Length"])
def test_a_size_of_thousands_of_digits(name: str, monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    """It is no size."""
    said = {"Content-Range": f"bytes 0-0/{'9' * 5_000}", "Content-Length": "9" * 5_000}[name]
    answer = httpx2.MockTransport(lambda _: httpx2.Response(206, headers={name: said}, stream=httpx2.ByteStream(b"")))
    monkeypatch.setattr(url_file, "get_session", lambda: httpx2.Client(transport=answer))

    with pytest.raises(DownloadProblem, match="does not say how large it is"):
        look_up(UrlReference("https://host/m.gguf", "m.gguf"), patience)


def test_a_part_with_thousands_of_digits() -> None:
    """It is another part than requested."""
    assert RANGE.fullmatch("bytes 5-7/100")
    for said in (f"bytes {'9' * 5_000}-7/100", f"bytes 5-7/{'9' * 5_000}"):
        assert RANGE.fullmatch(said) is None
