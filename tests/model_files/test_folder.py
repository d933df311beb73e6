"""The models of a folder while files appear, grow and vanish."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import model_bytes, put
from tests.support.waiting import eventually

from hotseat.model_files import folder
from hotseat.model_files.file_kind import read_gguf
from hotseat.model_files.folder import SETTLED_S, ModelFolders
from hotseat.model_files.search import Sight

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.model_files.file_kind import Found

NOW = 1_800_000_000.0


@pytest.fixture
def model_folders() -> ModelFolders:
    return ModelFolders(clock=lambda: NOW)


def put_old(path: Path, data: bytes = b"", age: float = 60.0) -> Path:
    put(path, data)
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_whole_files_are_on_offer_by_their_names(tmp_path: Path, model_folders: ModelFolders) -> None:
    """Subfolders count too; projectors and drafts are not models."""
    put_old(tmp_path / "Qwen3-4B-Q4_K_M.gguf"), put_old(tmp_path / "sub/my model.gguf")
    put_old(tmp_path / "mmproj-F16.gguf", model_bytes("clip")), put_old(tmp_path / "big-draft.gguf")

    assert model_folders.look(tmp_path) == {
        "Qwen3-4B-Q4_K_M": tmp_path / "Qwen3-4B-Q4_K_M.gguf",
        "my-model": tmp_path / "sub/my model.gguf",
    }


def test_a_file_that_grows_is_left_alone_until_it_is_whole(tmp_path: Path, model_folders: ModelFolders) -> None:
    """Its head says how long it must be; a moment without writes says that nobody is writing."""
    whole = model_bytes()
    put_old(tmp_path / "m.gguf", whole[:-1])
    cut_off = dict(model_folders.look(tmp_path))
    put_old(tmp_path / "m.gguf", whole, age=SETTLED_S / 2)
    fresh = dict(model_folders.look(tmp_path))
    put_old(tmp_path / "m.gguf", whole, age=SETTLED_S)
    settled = dict(model_folders.look(tmp_path))

    assert (cut_off, fresh, list(settled)) == ({}, {}, ["m"])


def test_a_file_beside_its_part_is_left_alone(tmp_path: Path, model_folders: ModelFolders) -> None:
    """A preallocated file looks complete before it is."""
    put_old(tmp_path / "m.gguf"), put_old(tmp_path / "m.gguf.part")
    with_part = dict(model_folders.look(tmp_path))
    (tmp_path / "m.gguf.part").unlink()

    assert with_part == {}
    assert list(model_folders.look(tmp_path)) == ["m"]


def test_a_vanished_file_goes_when_nobody_uses_it(tmp_path: Path, model_folders: ModelFolders) -> None:
    """A running server still has its file open; removing its model would stop it needlessly."""
    file = put_old(tmp_path / "m.gguf")
    model_folders.look(tmp_path)
    file.unlink()
    model_folders.in_use = {"m"}
    in_use = dict(model_folders.look(tmp_path))
    model_folders.in_use = ()

    assert in_use == {"m": file}
    assert model_folders.look(tmp_path) == {}


def test_files_of_equal_name_are_named_by_their_folders(tmp_path: Path, model_folders: ModelFolders) -> None:
    """All of them, whichever came first, so that no name passes from one file to another."""
    first = put_old(tmp_path / "org/repo/m.gguf")
    alone = dict(model_folders.look(tmp_path))
    second = put_old(tmp_path / "an/other one/m.gguf")
    two = dict(model_folders.look(tmp_path))
    third = put_old(tmp_path / "m.gguf")
    three = dict(model_folders.look(tmp_path))

    assert alone == {"m": first}
    assert two == {"an/other-one/m": second, "org/repo/m": first}
    assert three == {**two, f"{tmp_path.name}/m": third}


def test_a_name_stays_while_its_model_is_in_use(tmp_path: Path, model_folders: ModelFolders) -> None:
    """A second file of the same name does not stop the server of the first."""
    first = put_old(tmp_path / "b/m.gguf")
    model_folders.look(tmp_path)
    second = put_old(tmp_path / "a/m.gguf")
    model_folders.in_use = {"m"}

    assert model_folders.look(tmp_path) == {"m": first, "a/m": second, "b/m": first}


def test_a_head_is_read_once(tmp_path: Path, model_folders: ModelFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again if the file changes."""
    put_old(tmp_path / "m.gguf"), put_old(tmp_path / "n.gguf", b"no model")
    reads: list[str] = []

    def noted(path: Path) -> Found:
        reads.append(path.name)
        return read_gguf(path)

    monkeypatch.setattr("hotseat.model_files.folder.read_gguf", noted)
    for _ in range(3):
        model_folders.look(tmp_path)
    put_old(tmp_path / "n.gguf", age=30.0)
    model_folders.look(tmp_path)

    assert sorted(reads) == ["m.gguf", "n.gguf", "n.gguf"]


def test_a_folder_that_is_not_there_offers_nothing(tmp_path: Path, model_folders: ModelFolders) -> None:
    """It may be mounted later."""
    assert model_folders.look(tmp_path / "absent") == {}


def test_a_folder_that_does_not_answer(
    tmp_path: Path, model_folders: ModelFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its models stay until it answers."""
    put_old(tmp_path / "a.gguf", model_bytes())
    before = model_folders.look(tmp_path)
    stuck = threading.Event()
    monkeypatch.setattr(folder, "look_into", lambda _: stuck.wait() and Sight())
    monkeypatch.setattr(folder, "SCAN_S", 0.01)
    during = model_folders.look(tmp_path)
    stuck.set()

    assert {*before} == {*during} == {"a"}
    assert eventually(lambda: not model_folders.look(tmp_path))
