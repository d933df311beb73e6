"""From folders to models: each file is found once, every scan ends, and models get kinds, companions and names."""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import model_bytes, put, put_checkpoint, put_ollama

from hotseat.model_files.file_kind import Engine, Role
from hotseat.model_files.search import Bounds, look, look_into
from hotseat.model_files.usual_folders import ollama_stores, usual_folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 65534


@pytest.mark.parametrize(
    ("data", "role"),
    [
        (model_bytes(), Role.CHAT),
        (model_bytes("qwen3", qwen3__pooling_type=3), Role.EMBEDDING),
        (model_bytes("qwen3", qwen3__pooling_type=4), Role.RERANK),
        (model_bytes("bert"), Role.EMBEDDING),
        (model_bytes("bert", bert__pooling_type=4), Role.RERANK),
    ],
)
def test_the_head_says_what_a_model_is_for(tmp_path: Path, data: bytes, role: Role) -> None:
    """Pooling and architecture distinguish embedding models and rerankers from chat models."""
    put(tmp_path / "m.gguf", data)
    [named] = look([tmp_path]).models

    assert named.model.role is role
    assert (named.model.trained_context, named.model.parameters, named.model.quant) == (65536, 2 * 64 * 64, "F16")


def test_what_is_no_model_is_left_out_with_a_reason(tmp_path: Path) -> None:
    """Adapters, truncated files, and files that only have the suffix are left out."""
    put(tmp_path / "adapter.gguf", model_bytes(general__type="adapter"))
    put(tmp_path / "cut.gguf", model_bytes()[:-100])
    put(tmp_path / "text.gguf", b"hello")
    put(tmp_path / "ggml-silero.bin", b"lmgg" + struct.pack("<i", 16))
    found = look([tmp_path])

    assert found.models == []
    assert [left.why.removeprefix(f"{left.path} ").partition(":")[0] for left in found.left_out] == [
        "is an adapter, not a model",
        "is truncated",
        "does not begin like a GGUF file; is it a complete GGUF file?",
        "is not a whisper.cpp model",
    ]


def test_a_projector_goes_to_the_model_that_it_fits(tmp_path: Path) -> None:
    """Of several formats the preferred one is taken; one of another width or folder belongs to another model."""
    put(tmp_path / "gemma/gemma-Q4_K_M.gguf")
    for quant, width in (("F32", 64), ("F16", 64), ("Q8_0", 1024)):
        projector = model_bytes("clip", general__type="mmproj", clip__vision__projection_dim=width)
        put(tmp_path / f"gemma/mmproj-gemma-{quant}.gguf", projector)
    put(tmp_path / "other/llama.gguf")
    put(tmp_path / "lonely/mmproj-F16.gguf", model_bytes("clip", clip__vision__projection_dim=7))
    found = look([tmp_path])

    projectors = {named.name: named.model.projector for named in found.models}
    assert projectors == {"gemma-Q4_K_M": tmp_path / "gemma/mmproj-gemma-F16.gguf", "llama": None}
    assert {left.path.name for left in found.left_out} == {
        "mmproj-gemma-F32.gguf", "mmproj-gemma-Q8_0.gguf", "mmproj-F16.gguf",
    }  # fmt: skip


def test_a_draft_goes_to_the_larger_model_of_its_words(tmp_path: Path) -> None:
    """Its name says draft, it is in the same folder, has as many tokens and is less than half as large."""
    put(tmp_path / "big.gguf", model_bytes(rows=4096))
    put(tmp_path / "other-words.gguf", model_bytes(words=128, rows=4096))
    draft = put(tmp_path / "big-draft-Q8_0.gguf")
    found = look([tmp_path])

    assert {named.name: named.model.draft for named in found.models} == {"big": draft, "other-words": None}


def test_a_model_in_parts_is_one_model(tmp_path: Path) -> None:
    """Its size is that of all parts, its name has no number; with a part missing it is left out."""
    for n in (1, 2):
        put(tmp_path / f"m-Q8_0-0000{n}-of-00002.gguf")
    put(tmp_path / "half-00001-of-00002.gguf")
    found = look([tmp_path])

    [named] = found.models
    assert (named.name, named.aliases, named.model.size) == ("m-Q8_0", ("m",), 2 * 2 * 128 * 64)
    assert "half-00002-of-00002.gguf cannot be read" in found.left_out[0].why


def test_names_are_unique_and_aliases_are_nobody_elses(tmp_path: Path) -> None:
    """A second file of a name gets a number; an alias that two models would have is given to neither."""
    put(tmp_path / "a/Qwen3-4B-Q4_K_M.gguf"), put(tmp_path / "b/Qwen3-4B-Q4_K_M.gguf", model_bytes(words=65))
    put(tmp_path / "Phi 4 (mini)-Q8_0.gguf")
    put(tmp_path / "ggml-org_gemma-3-1b-it-GGUF_gemma-3-1b-it-Q8_0.gguf")
    put(tmp_path / "c/model.gguf", model_bytes(general__name="Named Within"))

    assert [(named.name, *named.aliases) for named in look([tmp_path]).models] == [
        ("gemma-3-1b-it-Q8_0", "gemma-3-1b-it"),
        ("Named-Within", "named-within"),
        ("Phi-4-mini-Q8_0", "phi-4-mini"),
        ("Qwen3-4B-Q4_K_M",),
        ("Qwen3-4B-Q4_K_M-2",),
    ]


def test_a_store_of_ollama_that_is_forbidden_is_reported(tmp_path: Path) -> None:
    """A service's files often belong to its own user."""
    put_ollama(tmp_path / "service/.ollama/models", "gemma3", "4b", model=model_bytes())
    with forbidden(tmp_path / "service"):
        folders, stores = (find({}, tmp_path / "service") for find in (usual_folders, ollama_stores))
        found = look(folders, stores)

    assert found.models == []
    assert (
        f"{tmp_path}/service/.ollama/models/manifests cannot be read: permission denied. "
        "Join the group of its owner, or run this as its owner."
    ) in found.unseen


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Root may read everything, so it is somebody else meanwhile."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)


def test_models_of_ollama_have_ollamas_names(tmp_path: Path) -> None:
    """The manifest names the blobs; a model whose blob is gone is left out."""
    put_ollama(tmp_path, "gemma3", "4b", model=model_bytes(), projector=model_bytes("clip"))
    put_ollama(tmp_path, "llama3.2", "latest", model=model_bytes(words=65))
    put_ollama(tmp_path, "gone", "latest")
    put(tmp_path / "manifests/registry.ollama.ai/library/broken/latest", b"[]")
    found = look([], [tmp_path])

    gemma, llama = found.models
    assert (gemma.name, gemma.aliases, llama.name, llama.aliases) == ("gemma3:4b", (), "llama3.2:latest", ("llama3.2",))
    assert gemma.model.projector
    assert gemma.model.projector.parent == tmp_path / "blobs"
    assert [left.path.parent.name for left in found.left_out] == ["broken", "gone"]


def test_other_engines_have_other_files(tmp_path: Path) -> None:
    """A snapshot in Hugging Face's cache is for vLLM and named after its repository; whisper has its own format."""
    put_checkpoint(tmp_path / "models--Qwen--Qwen3-0.6B/snapshots/c1899de289a04d12")
    put(tmp_path / "ggml-base.en.bin", b"lmgg" + struct.pack("<i", 51864))

    assert [(named.name, named.model.engine, named.model.role) for named in look([tmp_path]).models] == [
        ("Qwen3-0.6B", Engine.VLLM, Role.CHAT),
        ("whisper-base.en", Engine.WHISPER, Role.SPEECH),
    ]


def test_reading_ends_when_time_is_up(tmp_path: Path) -> None:
    """Unread files are reported."""
    put(tmp_path / "a.gguf"), put(tmp_path / "b.gguf")
    times = iter([0.0, 1.0, 2.0, 30.0, 30.0])
    found = look([tmp_path], bounds=Bounds(clock=lambda: next(times)))

    assert [named.name for named in found.models] == ["a"]
    assert found.unseen == [f"The search timed out before {tmp_path}/b.gguf was read; name fewer folders."]


def test_the_usual_places_follow_the_variables_of_their_programs(tmp_path: Path) -> None:
    """Only existing folders are listed, in a stable order."""
    env = {
        "HF_HOME": str(tmp_path / "hf"),
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
        "LLAMA_CACHE": str(tmp_path / "lc"),
    }
    wanted = [tmp_path / name for name in ("hf/hub", "lc", ".cache/llama.cpp", ".lmstudio/models", "models")]
    for folder in (*wanted, tmp_path / "ollama/manifests"):
        folder.mkdir(parents=True)

    assert usual_folders(env, tmp_path) == wanted
    assert ollama_stores(env, tmp_path) == [tmp_path / "ollama"]


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
