"""`hotseat pull`, and `hotseat run ORG/REPO`, with a hub that is none."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.local_hub import Content, LocalHub, local_hub, use
from tests.support.model_folders import model_bytes, model_head, put

from hotseat.cli import pull
from hotseat.cli.fit import GIB, Device
from hotseat.cli.pull import pulled
from hotseat.downloads.library import close_session
from hotseat.downloads.model_download import UrlDownload
from hotseat.downloads.reference import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command_line import CommandLine, Typed

NOBODY = ("--url", "http://127.0.0.1:1")
CONFIG = """\
modelsDir:
  path: weights
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT}
"""
ROW = 128
"""Bytes that each row of a test model takes."""


def large(gib: float) -> Content:
    """A model of this size, of which only the head is read."""
    head, zeros = model_head(rows=int(gib * GIB) // ROW)
    return Content(head, zeros, announced=f"{int(gib * 10):064x}")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub, and a working folder with a configuration on a machine with one GPU of 8 GiB."""
    with local_hub({}, token="hf_secret") as hub:
        use(hub, tmp_path / "hub", monkeypatch)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(pull, "devices", lambda: [Device("gpu0", 8 * GIB)])
        put(tmp_path / "config.yaml", CONFIG.encode())
        yield hub


def placed() -> list[str]:
    return sorted(str(path.relative_to("weights")) for path in Path("weights").rglob("*.gguf"))


def test_a_model_is_downloaded_beside_its_projector(hub: LocalHub, typed: Typed) -> None:
    """The plan comes first: the choice and its reason, disk and memory; the end names the model."""
    hub.repositories["test/tiny"] = {
        "README.md": Content(b"hello"),
        "tiny-Q4_K_M.gguf": Content(model_bytes()),
        "tiny-Q8_0.gguf": Content(model_bytes(rows=128)),
        "mmproj-F16.gguf": Content(model_bytes("clip")),
    }
    said = typed("pull", "test/tiny", *NOBODY)
    lines = said.out.splitlines()

    assert (said.code, said.err) == (0, "")
    assert lines[:2] == [
        "test/tiny: Q4_K_M, with mmproj-F16.gguf",
        "chosen because it is the usual choice, and it fits",
    ]
    assert lines[2].startswith("needs 32.8 KiB of disk (")
    assert "; fits gpu0 with a context of 32768 tokens (" in lines[2]
    assert lines[3].startswith("tiny-Q4_K_M is in ")
    assert placed() == ["test/tiny/mmproj-F16.gguf", "test/tiny/tiny-Q4_K_M.gguf"]


def test_what_does_not_fit_the_memory_is_not_chosen(
    hub: LocalHub, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of 6.9 GiB fit 7 GiB by themselves, but not with a context; nothing but heads is read."""
    hub.repositories["test/large"] = {
        "large-Q8_0.gguf": large(12),
        "large-Q4_K_M.gguf": large(6.9),
        "large-Q2_K.gguf": large(3),
    }
    monkeypatch.setattr(pull, "free_space", lambda _: 0)
    said = typed("pull", "test/large", *NOBODY)

    assert said.code == 1
    assert (
        "test/large: Q2_K\nchosen because it is the best that fits; Q4_K_M would not\nneeds 3 GiB of disk (" in said.out
    )
    assert "fits gpu0 with a context of 32768 tokens (3.5 GiB)" in said.out
    assert said.err.endswith("has too little space: free 3.3 GiB first\n")
    assert hub.sent < 8 << 20
    assert not Path("hub").exists()


def test_a_repository_of_which_nothing_fits_names_the_way_out(hub: LocalHub, typed: Typed) -> None:
    """Nothing is downloaded unless the user names it."""
    hub.repositories["test/huge"] = {"huge-Q4_K_M.gguf": large(40), "huge-Q2_K.gguf": large(20)}
    said = typed("pull", "test/huge", *NOBODY)

    assert said.code == 1
    assert "hotseat pull test/huge:Q2_K" in said.err
    assert hub.sent == 0


def test_a_named_quantisation_that_does_not_fit_is_a_remark(
    hub: LocalHub, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user knows best; llama-server can leave layers in RAM."""
    hub.repositories["test/huge"] = {"huge-Q4_K_M.gguf": large(40), "huge-Q2_K.gguf": large(20)}
    monkeypatch.setattr(pull, "free_space", lambda _: 0)
    said = typed("pull", "test/huge:q2_k", *NOBODY)

    assert "; does not fit the 7 GiB of gpu0 for models: it will be slow\n" in said.out


def test_a_split_model_arrives_with_all_its_parts(hub: LocalHub, typed: Typed) -> None:
    """It is one model."""
    files = {f"Q8_0/m-{n:05}-of-00003.gguf": Content(model_bytes(words=64 + n)) for n in (1, 2, 3)}
    hub.repositories["test/split"] = files
    said = typed("pull", "test/split", *NOBODY)

    assert said.out.startswith("test/split: Q8_0 in 3 files\n")
    assert "\nm is in " in said.out
    assert placed() == [f"test/split/Q8_0/m-{n:05}-of-00003.gguf" for n in (1, 2, 3)]


def test_hostile_names_reach_neither_the_disk_nor_the_terminal(hub: LocalHub, typed: Typed) -> None:
    """A repository that has nothing else has no model."""
    names = ["../../escaped.gguf", "/tmp/escaped.gguf", ".hidden.gguf", "clear\x1b[2J.gguf", "a/../../escaped.gguf"]
    hub.repositories["test/evil"] = {name: Content(model_bytes()) for name in names}
    said = typed("pull", "test/evil", *NOBODY)

    assert said.code == 1
    assert said.err == ("hotseat: test/evil has no GGUF file; look for a repository whose name ends with -GGUF\n")
    assert not Path("weights").exists()


def test_a_second_pull_fetches_nothing(hub: LocalHub, typed: Typed) -> None:
    """What is in the hub's cache is used, whoever put it there."""
    hub.repositories["test/tiny"] = {"tiny.gguf": Content(model_bytes())}
    typed("pull", "test/tiny", *NOBODY)
    os.unlink("weights/test/tiny/tiny.gguf")
    asked = len(hub.asked)
    said = typed("pull", "test/tiny", *NOBODY)

    assert "16.4 KiB of it is there already" in said.out
    assert placed() == ["test/tiny/tiny.gguf"]
    assert not [each for each in hub.asked[asked:] if each.place == "storage" and "range" not in each.headers]


def test_a_second_file_of_a_name_is_named_by_its_folder_and_so_is_the_first(hub: LocalHub, typed: Typed) -> None:
    """The output says both."""
    hub.repositories["test/tiny"] = {"tiny-Q4_K_M.gguf": Content(model_bytes())}
    hub.repositories["other/tiny"] = {"tiny-Q4_K_M.gguf": Content(model_bytes(rows=128))}
    typed("pull", "test/tiny", *NOBODY)
    said = typed("pull", "other/tiny", *NOBODY)
    one, other = said.out.splitlines()[-2:]

    assert one == ("tiny-Q4_K_M is called test/tiny/tiny-Q4_K_M from now on: the new model has the same file name")
    assert other.startswith("other/tiny/tiny-Q4_K_M is in ")


def test_a_file_of_the_user_is_not_replaced(hub: LocalHub, typed: Typed) -> None:
    """Only links to the cache are."""
    hub.repositories["test/tiny"] = {"tiny.gguf": Content(model_bytes())}
    put(Path("weights/test/tiny/tiny.gguf"), b"mine")
    said = typed("pull", "test/tiny", *NOBODY)

    assert "exists and is not a link" in said.err
    assert Path("weights/test/tiny/tiny.gguf").read_bytes() == b"mine"


def test_a_folder_of_another_user_is_noticed_before_the_download(
    hub: LocalHub, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of the user of systemd's unit; the test may run as root, who may write everywhere."""
    hub.repositories["test/tiny"] = {"tiny.gguf": Content(model_bytes())}
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    said = typed("pull", "test/tiny", *NOBODY)

    assert said.code == 1
    assert said.err.startswith("hotseat: you may not write to ")
    assert not Path("hub").exists()


def test_a_file_where_a_folder_is_needed_is_an_error_in_words(hub: LocalHub, typed: Typed) -> None:
    """As is everything else that the disk refuses."""
    hub.repositories["test/tiny"] = {"tiny.gguf": Content(model_bytes())}
    blocker = put(Path("weights/test"), b"")
    said = typed("pull", "test/tiny", *NOBODY)

    assert said.code == 1
    assert said.err.endswith("weights/test/tiny: Not a directory\n")
    assert said.err.count("\n") == 1
    assert blocker.is_file()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """With TLS and one file."""
    certificate = put(tmp_path / "certificate.pem", CERTIFICATE.encode())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    close_session()
    with local_hub({"": {"m.gguf": Content(model_bytes())}}, tls=tls) as server:
        yield server
    close_session()


def file_name(server: LocalHub) -> str:
    return f"{server.repositories['']['m.gguf'].sha256}.gguf"


def test_a_file_by_its_url_lies_in_the_folder_itself(hub: LocalHub, server: LocalHub, typed: Typed) -> None:
    """Over https, with the same plan; the hub is not asked."""
    said = typed("pull", f"{server.storage}/{file_name(server)}", *NOBODY)

    assert said.code == 0, said.err
    assert "; fits gpu0 with a context of 32768 tokens (" in said.out
    assert placed() == [file_name(server)]
    assert hub.asked == []


@pytest.mark.parametrize("mine", [b"mine", bytes(len(model_bytes()))], ids=["another size", "the same size"])
def test_a_file_of_the_user_with_the_name_of_a_url_is_not_replaced(
    hub: LocalHub, server: LocalHub, typed: Typed, mine: bytes
) -> None:
    """Nor is it taken for the file at the server, which is not asked."""
    file = put(Path("weights") / file_name(server), mine)
    said = typed("pull", f"{server.storage}/{file.name}", *NOBODY)

    assert said.code == 1
    assert said.err.endswith(f"{file} exists already; delete or rename it to download it again\n")
    assert file.read_bytes() == mine
    assert server.asked == []


@pytest.mark.parametrize(
    ("no_etag", "then"),
    [(False, "continues where this one ended"), (True, "starts over: the server sends no strong ETag")],
)
def test_ctrl_c_says_whether_the_next_command_continues(
    hub: LocalHub, server: LocalHub, typed: Typed, monkeypatch: pytest.MonkeyPatch, no_etag: bool, then: str
) -> None:
    """Without an ETag nobody knows whether the file is still the same."""
    server.troubles.no_etag = no_etag

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(UrlDownload, "run", stop)
    said = typed("pull", f"{server.storage}/{file_name(server)}", *NOBODY)

    assert said.err == f"hotseat: stopped; the same command {then}\n"


def test_without_a_folder_for_models_the_error_has_the_lines_to_add(hub: LocalHub, typed: Typed) -> None:
    """No server is asked for anything; a reference that is none is reported first."""
    put(Path("config.yaml"), b"models: {a: {cmd: 'server --port ${PORT}'}}")
    said, wrong = typed("pull", "test/tiny", *NOBODY), typed("pull", "gemma3", *NOBODY)

    assert said.code == 1
    assert '"gemma3" is not a reference to a model: name ORG/REPO' in wrong.err
    assert "modelsDir:\n  path: ~/models\n  cmd: llama-server -m ${MODEL_PATH} ${MMPROJ} --port ${PORT}" in said.err
    assert hub.asked == []


@pytest.mark.parametrize("words", [("pull", "qwen"), ("pull", "http://host/m.gguf"), ("pull", "test/nothing")])
def test_errors_are_one_sentence(hub: LocalHub, typed: Typed, words: tuple[str, ...]) -> None:
    """No traceback, no token."""
    said = typed(*words, *NOBODY)

    assert said.code == 1
    assert said.err.startswith("hotseat: ")
    assert said.err.count("\n") == 1
    assert "hf_secret" not in said.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("org/repo/m-Q8_0.gguf", "org/repo/m-Q4_K_M.gguf", "org/other/x.gguf", "plain.gguf"):
        os.utime(put(tmp_path / name), (0, 0))
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("org/repo", "m-Q4_K_M"),
        ("org/repo:q8_0", "m-Q8_0"),
        ("org/repo:m-Q8_0.gguf", "m-Q8_0"),
        ("org/repo:Q2_K", ""),
        ("org/other", "x"),
        ("org/absent", ""),
        ("https://host/plain.gguf", "plain"),
    ],
)
def test_what_was_pulled_before_is_found_without_the_hub(folder: Path, reference: str, name: str) -> None:
    """The usual quantisation comes first."""
    assert pulled(parse(reference), folder) == name


async def test_a_configured_name_with_a_slash_is_no_reference(command_line: CommandLine) -> None:
    """It goes to the model; nothing is pulled."""
    said = await command_line.type("run", "org/llama", "hello")

    assert "hub" not in said.err
    assert "ORG/REPO" not in said.err
