"""The configurations of the cookbook are complete: hotseat warns of nothing in them, and starts all their models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml
from scripts.make_docs import DOCS
from tests.support.config_files import ConfigFiles
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.page_blocks import blocks_of
from tests.support.stub_programs import stub_programs

if TYPE_CHECKING:
    from pathlib import Path

RECIPES = {
    block.about: block.text for block in blocks_of((DOCS / "howto/cookbook.md").read_text()) if block.mark == "file"
}
KEYS = ("ADMIN_KEY", "MONITORING_KEY", "WEBSITE_KEY", "NIGHTLY_KEY", "CLIENT_KEY", "FLEET_SECRET", "NATS_PASSWORD")
ENVIRON = {name: f"{name}-0123456789-0123456789-abcdef" for name in KEYS} | {"HOST_NAME": "gpu1"}
KEY = {"Authorization": f"Bearer {ENVIRON['ADMIN_KEY']}"}


def test_there_are_ten() -> None:
    """As the page says."""
    assert len(RECIPES) == 10


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_has_no_warnings(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither errors nor warnings, and no comparison with llama-swap."""
    monkeypatch.chdir(tmp_path)
    loaded = ConfigFiles(tmp_path).load(RECIPES[recipe], ENVIRON)

    assert (*loaded.problems, *loaded.differences) == ()


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_model_of_a_recipe_starts(recipe: str, tmp_path: Path) -> None:
    """Each answers a request; the model servers are stand-ins, and everything else is real."""
    with started(recipe, tmp_path) as rig:
        listed = [model["id"] for model in rig.call("GET", "/v1/models", **KEY).json()["data"]]
        answers = {model: rig.call("POST", "/v1/chat/completions", {"model": model}, **KEY) for model in listed}

    assert [answer.body for answer in answers.values() if answer.status != 200] == []
    assert set(listed) == set(yaml.safe_load(RECIPES[recipe])["models"])


@pytest.mark.parametrize(
    ("recipe", "models"),
    [
        ("one-card.yaml", ["embed", "chat", "small"]),
        ("two-cards.yaml", ["chat", "coder", "embed"]),
        ("unified.yaml", ["chat", "coder"]),
        ("unified.yaml", ["chat", "vision"]),
        ("cpu.yaml", ["chat", "careful", "embed"]),
        ("agents.yaml", ["helper", "planner"]),
        ("containers.yaml", ["chat", "coder"]),
    ],
)
def test_models_run_side_by_side_as_the_page_says(recipe: str, models: list[str], tmp_path: Path) -> None:
    """None of them is stopped for another one."""
    with started(recipe, tmp_path) as rig:
        for model in models:
            rig.call("POST", "/v1/chat/completions", {"model": model}, **KEY)
        running = rig.running()

    assert sorted(running) == sorted(models)


def started(recipe: str, folder: Path) -> ForkedHotseat:
    config = folder / ConfigFiles(folder).write("config.yaml", edited(RECIPES[recipe], folder / "models"))
    return ForkedHotseat(config, folder, environ={**ENVIRON, **stub_programs(folder)})


def edited(recipe: str, folder: Path) -> str:
    """The recipe with a folder in which all its model files are, on a machine whose own memory does not count."""
    folder.mkdir()
    for name in re.findall(r"models\}?/([\w.-]+)", recipe):
        (folder / name).touch()
    return recipe.replace("/srv/models", str(folder)) + "performance: {disabled: true}\n"
