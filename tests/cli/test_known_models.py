"""The models that commands on the same machine know from the running hotseat."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from tests.support.model_folders import put
from tests.support.waiting import come_true

from hotseat.cli.client import Server
from hotseat.cli.local_models import Places
from hotseat.cli.problems import Problem
from hotseat.cli.pull import model_for
from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.config.reload import ConfigReport

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed

GPU_BOX = "http://gpu-box.invalid:8080"
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


async def test_a_folder_that_the_server_does_not_show(
    command_line: CommandLine, served_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path has a value of the environment, which is hidden; nothing is written to a folder of that name."""
    config = CONFIG.replace("path: models", "path: ${env.WEIGHTS}")
    command_line.rig.config_report = reported(config, served_folder, monkeypatch, WEIGHTS="models")
    pulled = await command_line.type("pull", "org/repo")
    removed = await command_line.type("rm", "qwen", "--yes")
    shown = await command_line.type("show", "b")

    problem = f"hotseat: the running hotseat does not show where {served_folder}/${{env.WEIGHTS}} is; "
    assert pulled.err == removed.err == f"{problem}name its configuration with --config FILE\n"
    assert shown.code == 0


async def test_the_name_of_another_file_gets_shorter_when_one_is_deleted(
    command_line: CommandLine, served_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hotseat rm` waits until the file is no model, whatever the other is called then."""
    os.utime(put(served_folder / "models/z/qwen.gguf"), (0, 0))
    config = CONFIG.partition("models:\n")[0]
    command_line.rig.config_report = reported(config, served_folder, monkeypatch)

    async def look_again() -> None:
        await come_true(lambda: not (served_folder / "models/qwen.gguf").exists())
        command_line.rig.config_report = reported(config, served_folder, monkeypatch)

    said, _ = await asyncio.gather(command_line.type("rm", "models/qwen", "--yes"), look_again())

    assert (said.code, said.err) == (0, "")
    assert list(command_line.rig.config_report.resolved["models"]) == ["qwen"]
    assert (served_folder / "models/z/qwen.gguf").exists()


def test_a_download_for_another_machine_is_refused(
    served_folder: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end on this machine, where that server does not find it."""
    put(served_folder / "config.yaml", CONFIG.encode())
    monkeypatch.chdir(served_folder)
    said = typed("pull", "org/repo", "--url", GPU_BOX)

    assert said.code == 1
    assert said.err.startswith(f"hotseat: {GPU_BOX} is another machine; run the command there, or ")
    with pytest.raises(Problem, match="is another machine"):
        model_for("org/repo", Places(Server(GPU_BOX, None)), without_asking=True)
