"""`hotseat show` on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import model_bytes, put

if TYPE_CHECKING:
    from tests.support.command_line import Typed

NOBODY = ("--url", "http://127.0.0.1:1")
CONFIG = """\
modelsDir:
  path: weights
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT} -c 4096
models:
  seeing:
    cmd: llama-server -m seeing.gguf --mmproj eyes.gguf --port ${PORT} --api-key sk-secret
    aliases: [eyes]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "config.yaml", CONFIG.encode())
    for name in ("weights/m-Q4_K_M-00001-of-00002.gguf", "weights/m-Q4_K_M-00002-of-00002.gguf", "seeing.gguf"):
        os.utime(put(tmp_path / name), (0, 0))
    put(tmp_path / "eyes.gguf", model_bytes("clip"))
    return tmp_path


def test_a_model_of_the_folder(folder: Path, typed: Typed) -> None:
    """Every part with its size, what the file says of itself, and the estimate for its command."""
    said = typed("show", "m-Q4_K_M", *NOBODY)
    lines = said.out.splitlines()

    assert (said.code, said.err) == (0, "")
    assert lines[:8] == [
        "model         m-Q4_K_M",
        "state         unknown: no hotseat responds",
        "configured    under modelsDir in config.yaml",
        f"model         {folder}/weights/m-Q4_K_M-00001-of-00002.gguf (16.4 KiB)",
        f"model         {folder}/weights/m-Q4_K_M-00002-of-00002.gguf (16.4 KiB)",
        "kind          chat, llama, without a chat template",
        "size          16384 parameters, Q4_K_M",
        "context       trained on 65536 tokens",
    ]
    assert lines[8].startswith("memory        host: ")
    assert lines[9].endswith("m-Q4_K_M-00001-of-00002.gguf --port '${PORT}' -c 4096")


def test_a_model_that_is_written_with_its_projector(typed: Typed) -> None:
    """By its alias; secrets of the command are not shown."""
    said = typed("show", "eyes", "--json", *NOBODY)
    facts = json.loads(said.out)

    assert (facts["model"], facts["configured"]) == ("seeing", "models")
    assert [file["role"] for file in facts["files"]] == ["model", "projector"]
    assert "sk-secret" not in said.out


def test_a_written_model_with_a_file_of_the_folder(typed: Typed) -> None:
    """What counts is where the model is configured, not where its file is."""
    os.utime(put(Path("weights/own.gguf")), (0, 0))
    entry = "  own: {cmd: 'llama-server -m weights/own.gguf --port ${PORT}'}\n"
    put(Path("config.yaml"), f"{CONFIG}{entry}".encode())

    assert json.loads(typed("show", "own", "--json", *NOBODY).out)["configured"] == "models"


def test_a_model_whose_file_is_missing(typed: Typed) -> None:
    """The file is named as missing, and nothing fails."""
    Path("seeing.gguf").unlink()
    said = typed("show", "seeing", *NOBODY)

    assert said.code == 0
    assert "seeing.gguf (missing)\n" in said.out
    assert "\nmemory        unknown: " in said.out


def test_a_name_that_is_not_defined(typed: Typed) -> None:
    """The nearest name is suggested."""
    said = typed("show", "seing", *NOBODY)

    assert said.code == 1
    assert said.err == 'hotseat: model "seing" is not defined in the configuration. Did you mean "seeing"?\n'
