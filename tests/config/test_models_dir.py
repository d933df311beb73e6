"""`modelsDir`: a model for each file of a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.config_desk import Desk
from tests.support.shelves import put

from hotseat.config.load import read
from hotseat.shelf.stock import Stock

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
macros:
  context: 4096
modelsDir:
  path: weights
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT} -c ${context} --alias ${MODEL_ID}
  env: ["FILE=${MODEL_PATH}"]
  ttl: 10m
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("qwen", "my gemma"):
        path = put(tmp_path / f"weights/{name}.gguf")
        os.utime(path, (0, 0))
    return tmp_path


@pytest.fixture
def desk(folder: Path) -> Desk:
    return Desk(folder)


def test_each_file_is_a_model(desk: Desk) -> None:
    """Macros are filled in, and a path with spaces is one word."""
    loaded = desk.load(CONFIG)

    gemma, qwen = (loaded.catalog.resolve(name) for name in ("my-gemma", "qwen"))
    assert list(loaded.catalog.models) == ["my-gemma", "qwen"]
    assert gemma.recipe.argv == (
        "llama-server", "-m", "weights/my gemma.gguf", "--port", "${PORT}", "-c", "4096", "--alias", "my-gemma",
    )  # fmt: skip
    assert gemma.recipe.env == (("FILE", "weights/my gemma.gguf"),)
    assert qwen.ttl_s == 600
    assert loaded.complaints == ()


def test_a_model_that_is_written_wins_over_a_file(desk: Desk) -> None:
    """What needs other options gets them under models, by the same name."""
    loaded = desk.load(CONFIG + "models: {qwen: {cmd: 'other --port ${PORT}'}}\n")

    assert loaded.catalog.resolve("qwen").recipe.argv[0] == "other"
    assert len(loaded.catalog.models) == 2


def test_a_mistake_in_the_template_is_told_at_its_place(desk: Desk) -> None:
    """Also while the folder is empty, and once for the template, not only for its models."""
    text = CONFIG.replace("ttl: 10m", "ttl: soon")

    assert 'config.yaml:8:3: error: modelsDir.ttl: must be a duration such as 90, 90s, 5m or 1h30m, not "soon"' in (
        desk.mistakes(text)
    )
    assert len(desk.mistakes(text.replace("weights", "empty"))) == 2


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (
            "-m ${MODEL_PATH} ",
            "",
            "6:3: error: modelsDir.cmd: must say ${MODEL_PATH}, or every model would be the same",
        ),
        ("path: weights", "path: [weights]", "5:3: error: modelsDir.path: must be a text, not a list"),
        ("  path: weights\n", "", "4:1: error: modelsDir.path: is missing"),
        (
            "macros:",
            "startPort: 5800\nmacros:",
            "2:1: error: startPort: counts the models, and modelsDir changes their",
        ),
        ("${context}", "${contxt}", 'error: modelsDir.cmd: unknown macro ${contxt}. Did you mean "context"?'),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Desk, before: str, after: str, complaint: str) -> None:
    """With its place and a way out."""
    mistakes = "\n".join(desk.mistakes(CONFIG.replace(before, after, 1)))

    assert complaint in mistakes


def test_a_folder_may_come_later(desk: Desk) -> None:
    """Its absence is worth a warning, not a refusal."""
    warnings = desk.warnings(CONFIG.replace("weights", "absent"))

    assert warnings == [
        "config.yaml:1:1: warning: models: no model is defined",
        "config.yaml:5:3: warning: modelsDir.path: there is no folder absent yet",
    ]


def test_a_second_look_sees_new_files_and_the_old_text(desk: Desk, folder: Path) -> None:
    """What was written into the configuration meanwhile waits for a reload."""
    file = folder / "config.yaml"
    file.write_text(CONFIG)
    stock = Stock()
    loaded = read([file], environ={}, offer=stock.look)
    file.write_text("nonsense")
    os.utime(put(folder / "weights/new.gguf"), (0, 0))
    assert loaded.look_again

    assert list(loaded.look_again(stock.look).models) == ["my-gemma", "new", "qwen"]
