"""What `hotseat init` writes, run by the real llama-server."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from scripts.make_gguf import TINY, write_model
from tests.support.hotseat import PROGRAM
from tests.support.llama import SERVER, model_file, present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


@pytest.fixture
def initialised(serve: Callable[..., Hotseat], tmp_path: Path) -> Callable[[], Hotseat]:
    """hotseat with the configuration that init writes for the folder `weights`."""

    def start() -> Hotseat:
        path = os.pathsep.join([str(present(SERVER).parent), os.environ["PATH"]])
        argv = [str(PROGRAM), "init", str(tmp_path / "weights"), "--print"]
        written = subprocess.run(argv, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
        config = yaml.safe_load(written.stdout)
        # One thread: two on two busy cores take 600 times as long for a token.
        models = {name: {**model, "env": ["LLAMA_ARG_THREADS=1"]} for name, model in config.pop("models").items()}
        return serve(models, **config)

    (tmp_path / "weights").mkdir()
    return start


def test_a_draft_beside_its_model_is_used(initialised: Callable[[], Hotseat], tmp_path: Path) -> None:
    """The server counts the tokens that were drafted."""
    weights = tmp_path / "weights"
    shutil.copy(model_file("alpha"), weights / "alpha-draft.gguf")
    write_model(weights / "alpha.gguf", replace(TINY, layers=16))
    rig = initialised()
    answer = rig.chat("alpha", max_tokens=32)

    assert answer.status == 200, rig.log()
    assert "draft_n" in answer.json()["timings"]
