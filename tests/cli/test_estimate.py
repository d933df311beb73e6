"""`hotseat estimate` on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from bench.estimates.shapes import Shape, write_zeros

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import Typed

CONFIG = """
models:
  qwen:
    aliases: [q]
    env: [LLAMA_ARG_N_PARALLEL=1]
    cmd: llama-server --port ${PORT} -m qwen.gguf -c 4096 --no-repack
  whisper:
    cmd: whisper-server --port ${PORT}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_N_PARALLEL"):
        monkeypatch.delenv(name, raising=False)
    write_zeros(tmp_path / "qwen.gguf", Shape(layers=2, vocab=1024))
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_model_is_estimated_by_its_command(typed: Typed) -> None:
    """Options and environment count; the output has the parts, then the sums per place, then what is not covered."""
    said = typed("estimate", "q")

    rows = [" ".join(line.split()) for line in said.out.splitlines()]
    assert rows[0] == "PART KIND WHERE MEMORY SIZE"
    assert "cache of 4096 tokens, f16 and f16 kv host anonymous 16 MiB" in rows
    assert "weights of qwen.gguf weights host mapped 12 MiB" in rows
    assert any(row.startswith("host: ") for row in rows)
    assert any(row.startswith("note: llama-server also uses") for row in rows)


@pytest.mark.usefixtures("folder")
def test_a_file_is_estimated_without_a_configuration(typed: Typed) -> None:
    """Options of the server count."""
    said = typed("estimate", "qwen.gguf", "--json", "--", "-c", "1024", "-ctk", "q8_0", "-np", "1")

    found = json.loads(said.out)
    [cache] = [line for line in found["lines"] if line["kind"] == "kv"]
    assert cache["what"] == "cache of 1024 tokens, q8_0 and f16"
    assert cache["bytes"] == 2 * 1024 * (512 // 32 * 34 + 512 * 2)
    assert found["needed"]["device"] == 0


@pytest.mark.usefixtures("folder")
def test_with_a_gpu_the_layers_are_there(typed: Typed) -> None:
    """The server's option for layers counts also if the configured command has none."""
    found = json.loads(typed("estimate", "qwen", "--json", "--", "-ngl", "99").out)

    assert {line["where"] for line in found["lines"] if line["kind"] == "kv"} == {"device"}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("qwne", 1, 'Did you mean "qwen"?'),
        ("whisper", 1, "set memory manually"),
        ("other.gguf", 1, "other.gguf cannot be read: No such file"),
        ("config.yaml", 1, "does not begin like a GGUF file"),
    ],
)
def test_what_cannot_be_estimated_is_said_in_one_sentence(typed: Typed, what: str, code: int, said: str) -> None:
    """The message is on standard error, with the next step."""
    found = typed("estimate", what)

    assert (found.code, found.out) == (code, "")
    assert said in found.err


def test_a_broken_configuration_exits_3(typed: Typed, folder: Path) -> None:
    """The exit code is the same for all commands."""
    (folder / "config.yaml").write_text("modles: {}")
    found = typed("estimate", "qwen")

    assert found.code == 3
    assert "modles" in found.err
