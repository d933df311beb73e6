"""The models that commands on the same machine know from the running hotseat."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import put

from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.config.reload import ConfigReport

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine

CONFIG = """\
modelsDir:
  path: models
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT}
models:
  b: {cmd: 'llama-server -m models/qwen.gguf --port ${PORT}'}
"""


@pytest.fixture
def served_folder(tmp_path: Path) -> Path:
    """The working directory of the running hotseat, with one model."""
    folder = tmp_path / "srv"
    os.utime(put(folder / "models/qwen.gguf"), (0, 0))
    return folder


def reported(config: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environ: str) -> ConfigReport:
    """What a hotseat reports that was started in this folder; the commands are typed in another."""
    put(folder / "config.yaml", config.encode())
    with monkeypatch.context() as there:
        there.chdir(folder)
        report = ConfigReport(resolved(read([folder / "config.yaml"], environ=environ)))
    monkeypatch.chdir(folder.parent)
    return report


async def test_relative_paths_are_those_of_the_server(
    command_line: CommandLine, served_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hotseat rm` typed in another folder sees that a written model uses the file."""
    command_line.rig.config_report = reported(CONFIG, served_folder, monkeypatch)
    said = await command_line.type("rm", "qwen", "--yes")
    shown = await command_line.type("show", "b")

    assert f"b uses {served_folder}/models/qwen.gguf; remove b from" in said.err
    assert (served_folder / "models/qwen.gguf").exists()
    assert f"{served_folder}/models/qwen.gguf (16.4 KiB)\n" in shown.out
    assert "memory        host: " in shown.out
