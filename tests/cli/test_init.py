"""`hotseat init` on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import model_bytes, put, put_checkpoint

from hotseat.catalog.spec import GpuChoice
from hotseat.cli import init
from hotseat.cli.fit import GIB, Device, fits_on
from hotseat.config.load import Loaded, read
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, DeviceName, Place

if TYPE_CHECKING:
    from tests.support.command_line import Typed

RAM = [Device("ram", 16 * GIB)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder on a machine of 16 GiB with only llama-server on its PATH."""
    put(tmp_path / "bin/llama-server", b"#!/bin/sh\n").chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(os, "environ", {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    monkeypatch.setattr(init, "devices", lambda: RAM)
    return tmp_path


def loaded() -> Loaded:
    return read([Path("config.yaml")], environ={})


def test_models_of_the_usual_places_become_a_configuration(home: Path, typed: Typed) -> None:
    """The file is valid without a warning, has the models that were found, and the output has the next step."""
    put(home / "models/Qwen3-4B-Q8_0.gguf")
    put(home / ".cache/llama.cpp/embedder.gguf", model_bytes("bert"))
    said = typed("init")

    config = loaded()
    chat, embedder = config.catalog.resolve("qwen3-4b"), config.catalog.resolve("embedder")
    assert said.code == 0
    assert said.out.splitlines() == [
        "config.yaml: 2 models (1 embedding, 1 chat)",
        "  embedder",
        "  Qwen3-4B-Q8_0",
        "next: hotseat serve",
        "then, in another terminal: hotseat run Qwen3-4B-Q8_0",
    ]
    assert config.problems == ()
    assert chat.recipe.argv == (
        f"{home}/bin/llama-server", "--host", "127.0.0.1", "--port", "${PORT}",
        "-m", f"{home}/models/Qwen3-4B-Q8_0.gguf", "-c", "32768",
    )  # fmt: skip
    assert chat.memory
    assert embedder.recipe.argv[-5:] == ("mean", "-b", "8192", "-ub", "8192")
    assert sum(config.catalog.budgets.values()) == 12 * GIB


def kept_conversations() -> set[str]:
    return {name for name, spec in loaded().catalog.models.items() if spec.keeps_conversations}


def test_conversations_are_kept_only_after_the_author_of_the_file_has_decided(home: Path, typed: Typed) -> None:
    """As without the key, nothing is written to disk; the file has the line as a comment, and says what it writes."""
    put(home / "models/chat.gguf")
    put(home / "models/embedder.gguf", model_bytes("bert"))
    typed("init")
    file, kept = Path("config.yaml"), kept_conversations()
    comment, line, rest = file.read_text().partition("\n# conversations: on\n")
    file.write_text(comment + line.replace("# ", "") + rest)

    assert (kept, kept_conversations()) == (set(), {"chat"})
    said = " ".join(comment.rpartition("\n\n")[2].replace("# ", "").split())
    assert "writes prompts to disk, to a private folder below ~/.cache/hotseat." in said
    assert "removed when hotseat ends" in said


@pytest.mark.usefixtures("home")
def test_a_path_with_spaces_and_quotes_survives(tmp_path: Path, typed: Typed) -> None:
    """The command in the file runs the same path."""
    path = put(tmp_path / "my models/it's #1: 100%.gguf")
    typed("init", "../my models")

    [spec] = loaded().catalog.models.values()
    assert os.path.normpath(spec.recipe.argv[spec.recipe.argv.index("-m") + 1]) == str(path)


def test_a_file_that_exists_is_left_alone(home: Path, typed: Typed) -> None:
    """--force overwrites it."""
    put(home / "models/m.gguf")
    Path("config.yaml").write_text("mine")
    refused, text = typed("init"), Path("config.yaml").read_text()
    forced = typed("init", "--force")

    assert (refused.code, text) == (1, "mine")
    assert "--force overwrites it" in refused.err
    assert (forced.code, list(loaded().catalog.models)) == (0, ["m"])
    assert os.listdir() == ["config.yaml"]


def test_print_writes_nothing(home: Path, typed: Typed) -> None:
    """The configuration goes to standard output, remarks to standard error."""
    put(home / "models/m.gguf"), put(home / "models/n.gguf", b"no model")
    said = typed("init", "--print")

    assert said.out.startswith("# Written by `hotseat init`")
    assert "skipped" in said.err
    assert os.listdir() == []


def test_nothing_found_says_where_was_looked(home: Path, typed: Typed) -> None:
    """The message has the next step."""
    (home / "models").mkdir()
    said = typed("init", str(home / "models"))

    assert said.code == 1
    assert f"searched {home}/models. Name the folder with your models; `hotseat init` without a folder" in said.err
    assert os.listdir() == []


def test_a_machine_without_models_gets_a_folder_for_downloads(home: Path, typed: Typed) -> None:
    """The configuration is valid without a warning but that it has no models; the output has the next steps."""
    said = typed("init")
    put(home / "models/a/b/m.gguf")
    os.utime(home / "models/a/b/m.gguf", (0, 0))

    assert said.out.splitlines() == [
        "config.yaml: no models yet (hotseat pull and hotseat run download them to ~/models)",
        "next: hotseat serve",
        "then, in another terminal: hotseat run ORG/REPO, for example ggml-org/gemma-3-1b-it-GGUF",
    ]
    assert loaded().problems == ()
    assert loaded().catalog.resolve("m").recipe.argv[5:] == ("-m", f"{home}/models/a/b/m.gguf", "-c", "16384")


def test_a_folder_that_is_not_there_is_asked_back(home: Path, typed: Typed) -> None:
    """The message suggests the nearest name."""
    (home / "weights").mkdir()
    said = typed("init", str(home / "wieghts"))

    assert said.code == 1
    assert said.err == f'hotseat: {home}/wieghts is not a folder. Did you mean "weights"?\n'


def test_without_a_server_the_file_is_written_and_the_lack_is_printed(home: Path, typed: Typed) -> None:
    """llama-server can be installed later; a model for a less common program is left out."""
    (home / "bin/llama-server").unlink()
    put(home / "models/m.gguf")
    put_checkpoint(home / "models/qwen")
    said = typed("init")

    assert said.code == 0
    assert "llama-server is not on PATH" in said.out
    assert f"skipped: {home}/models/qwen needs vllm, which is not on PATH" in said.out
    assert list(loaded().catalog.models) == ["m"]


def test_vllm_gets_the_folder_and_the_name(home: Path, typed: Typed) -> None:
    """Its server gets the model's name, and time to compile."""
    put(home / "bin/vllm", b"#!/bin/sh\n").chmod(0o755)
    put_checkpoint(home / "models/qwen")
    typed("init")

    [spec] = loaded().catalog.models.values()
    assert spec.recipe.argv[1:] == (
        "serve", "--host", "127.0.0.1", "--port", "${PORT}", "--served-model-name", "qwen",
        f"{home}/models/qwen", "--max-model-len", "32768",
    )  # fmt: skip
    assert spec.health_check_timeout_s == 900


def test_the_context_is_the_longest_that_fits(home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less memory means fewer tokens; if even the fewest do not fit, the model takes the whole device."""
    put(home / "models/m.gguf", model_bytes(words=20_000, rows=20_000))
    contexts = []
    for mib in (400, 60, 4):
        monkeypatch.setattr(init, "devices", lambda mib=mib: [Device("ram", mib << 20)])
        typed("init", "--force")
        [spec] = loaded().catalog.models.values()
        contexts.append((spec.recipe.argv[-1], spec.memory is not None))

    assert contexts == [("32768", True), ("8192", True), ("4096", False)]


@pytest.mark.parametrize(("knows", "draft_options"), [(True, ("--spec-type", "draft-simple")), (False, ())])
def test_a_draft_gets_the_options_that_the_server_knows(
    home: Path, typed: Typed, knows: bool, draft_options: tuple[str, ...]
) -> None:
    """The server's help shows whether the type is needed; a version without the option would not start with it."""
    options = "--spec-type TYPE" if knows else "-md FILE"
    put(home / "bin/llama-server", f"#!/bin/sh\necho '{options}'\n".encode()).chmod(0o755)
    put(home / "models/big.gguf", model_bytes(rows=4096))
    draft = put(home / "models/big-draft.gguf")
    typed("init")

    argv = loaded().catalog.resolve("big").recipe.argv
    assert argv[argv.index("-md") :] == ("-md", str(draft), *draft_options)


def test_several_gpus_are_chosen_at_each_start(home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each model gets all its layers on as few GPUs as it fits on, so its memory is one size."""
    monkeypatch.setattr(init, "devices", lambda: [Device("gpu0", 24 * GIB, "RTX"), Device("gpu1", 8 * GIB)])
    put(home / "models/m.gguf")
    typed("init")

    [spec] = loaded().catalog.models.values()
    assert loaded().problems == ()
    assert spec.recipe.argv[-2:] == ("-ngl", "99")
    assert spec.gpus == GpuChoice(None, (Place(LOCAL_HOST, DeviceName("gpu0")), Place(LOCAL_HOST, DeviceName("gpu1"))))
    assert list(spec.memory or {}) == [ANY_GPU]
    assert "gpu0: {memory: 24GiB, reserve: 1GiB} # RTX" in Path("config.yaml").read_text()


def test_one_gpu_is_not_chosen(home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to choose, so the file has the device."""
    monkeypatch.setattr(init, "devices", lambda: [Device("gpu0", 24 * GIB)])
    put(home / "models/m.gguf")
    typed("init")

    [spec] = loaded().catalog.models.values()
    assert spec.gpus is None
    assert list(spec.memory or {}) == [Place(LOCAL_HOST, DeviceName("gpu0"))]


def test_downloads_choose_among_several_gpus_too(home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template of the folder has the key."""
    monkeypatch.setattr(init, "devices", lambda: [Device("gpu0", 24 * GIB), Device("gpu1", 8 * GIB)])
    typed("init")

    put(home / "models/m.gguf")
    os.utime(home / "models/m.gguf", (0, 0))

    assert loaded().problems == ()
    assert loaded().catalog.resolve("m").gpus == GpuChoice(
        None, (Place(LOCAL_HOST, DeviceName("gpu0")), Place(LOCAL_HOST, DeviceName("gpu1")))
    )


@pytest.mark.parametrize(
    ("gib", "per_further", "sizes", "does"),
    [
        (7, 9, {"gpu0": 8}, True),
        (7.5, 0, {"gpu0": 8}, False),
        (7, 9, {"gpu0": 4, "gpu1": 8}, True),
        (13, 1, {"gpu0": 8, "gpu1": 8}, True),
        (13, 2, {"gpu0": 8, "gpu1": 8}, False),
        (13, 0, {"gpu0.0": 8, "gpu0.1": 8}, False),
    ],
)
def test_a_model_may_fit_several_gpus(gib: float, per_further: int, sizes: dict[str, int], does: bool) -> None:
    """Each further GPU costs the driver and buffers again; of MIG slices a process uses one. One GiB is reserved."""
    devices = [Device(name, size * GIB) for name, size in sizes.items()]

    assert fits_on(int(gib * GIB), per_further * GIB, devices) is does
