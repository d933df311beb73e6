"""Scanning for model files: each is found once, and every scan ends."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tests.support.model_folders import put, put_checkpoint

from hotseat.model_files.walk import Bounds, look_into

if TYPE_CHECKING:
    from pathlib import Path


def test_models_are_found_below_a_folder(tmp_path: Path) -> None:
    """GGUF files, folders of safetensors and whisper files are found at any depth; other files are ignored."""
    gguf, deep = put(tmp_path / "a.gguf"), put(tmp_path / "one/two/b.gguf")
    checkpoint, whisper = put_checkpoint(tmp_path / "qwen"), put(tmp_path / "ggml-base.bin")
    put(tmp_path / "readme.md"), put(tmp_path / "pytorch_model.bin")
    seen = look_into([tmp_path])

    assert seen.ggufs == [gguf, deep]
    assert (seen.checkpoints, seen.whispers, seen.unseen) == ([checkpoint], [whisper], [])


def test_a_file_with_two_names_is_found_once(tmp_path: Path) -> None:
    """Hugging Face's cache links a blob from each snapshot that has it."""
    blob = put(tmp_path / "blobs/0123")
    for snapshot in ("old", "new"):
        (tmp_path / snapshot).mkdir()
        (tmp_path / snapshot / "m.gguf").symlink_to(blob)

    assert look_into([tmp_path, tmp_path]).ggufs == [tmp_path / "new/m.gguf"]


def test_a_link_to_a_folder_above_is_no_way_without_end(tmp_path: Path) -> None:
    """A folder is scanned once, whatever links to it."""
    put(tmp_path / "inner/m.gguf")
    (tmp_path / "inner/up").symlink_to(tmp_path)
    (tmp_path / "inner/nowhere").symlink_to(tmp_path / "absent")
    seen = look_into([tmp_path])

    assert seen.ggufs == [tmp_path / "inner/m.gguf"]
    assert seen.unseen == []


def test_what_is_still_fetched_is_left_alone(tmp_path: Path) -> None:
    """A .part file beside a file means that it is incomplete; hidden folders are skipped."""
    put(tmp_path / "m.gguf.part"), put(tmp_path / "n.gguf"), put(tmp_path / "n.gguf.aria2")
    put(tmp_path / ".git/o.gguf")

    assert look_into([tmp_path]).ggufs == []


def test_of_a_model_in_parts_the_first_counts(tmp_path: Path) -> None:
    """The other parts belong to it."""
    first, _ = (put(tmp_path / f"m-0000{n}-of-00002.gguf") for n in (1, 2))

    assert look_into([tmp_path]).ggufs == [first]


def test_a_look_ends_when_its_bounds_are_reached(tmp_path: Path) -> None:
    """Too many entries or too much time: the files found so far count, and a sentence says where it ended."""
    put(tmp_path / "a.gguf"), put(tmp_path / "deep/er/b.gguf")
    ticks = count()
    crowded, slow = (
        look_into([tmp_path], bounds)
        for bounds in (Bounds(entries=2), Bounds(seconds=2.0, clock=lambda: float(next(ticks))))
    )
    shallow = look_into([tmp_path], Bounds(deepest=1))

    assert crowded.ggufs == slow.ggufs == shallow.ggufs == [tmp_path / "a.gguf"]
    assert crowded.unseen == [
        f"The search of {tmp_path} stopped early, at {tmp_path}/deep: it contains too many files."
    ]
    assert len(slow.unseen) == 1
    assert shallow.unseen == []


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """The rest is scanned all the same."""
    seen = look_into([tmp_path / "absent", put(tmp_path / "here/m.gguf").parent])

    assert seen.unseen == [f"{tmp_path}/absent cannot be read: No such file or directory."]
    assert len(seen.ggufs) == 1
