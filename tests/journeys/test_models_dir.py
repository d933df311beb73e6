"""A folder of models: files come and go while hotseat runs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S
from tests.support.llama import SERVER, model_file, present
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_files_come_and_go(serve: Callable[..., Hotseat], tmp_path: Path) -> None:
    """A file is a model once it is whole; a vanished one stays until its model is stopped. Nothing is restarted."""
    folder = tmp_path / "weights"
    folder.mkdir()
    command = f"{shlex.quote(str(present(SERVER)))} -m ${{MODEL_PATH}} --port ${{PORT}} -c 512 -t 1"
    rig = serve({}, modelsDir={"path": str(folder), "cmd": command})
    weights = model_file("alpha").read_bytes()

    def listed() -> list[str]:
        return [entry["id"] for entry in rig.call("GET", "/v1/models").json()["data"]]

    (folder / "half.gguf").write_bytes(weights[: len(weights) // 2])
    (folder / "whole.gguf.part").write_bytes(weights)
    (folder / "whole.gguf.part").rename(folder / "whole.gguf")
    eventually(lambda: listed() == ["whole"], within=PATIENCE_S)
    answer = rig.chat("whole")
    (folder / "whole.gguf").unlink()
    with (folder / "half.gguf").open("ab") as half:
        half.write(weights[len(weights) // 2 :])
    eventually(lambda: "half" in listed(), within=PATIENCE_S)
    kept = listed()
    rig.cli("stop", "whole")
    eventually(lambda: listed() == ["half"], within=PATIENCE_S)

    assert answer.status == 200
    assert kept == ["whole", "half"]
    assert rig.chat("half").status == 200
