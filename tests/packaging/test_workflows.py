"""The workflows of the forge: they run what exists here, with few permissions, and publish only what CI has passed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
FORMS = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))
OF_THE_RUNNER = ("apt-get", "docker", "gh", "git")
OF_THE_ENVIRONMENT = (".venv/bin/pip", ".venv/bin/just", "python3", "bash")
FILE = re.compile(r"(?<!\S)((?:requirements|scripts|\.ci)/\S+)")
PYTHON_OF = {"bookworm": "3.11", "forky": "3.14"}
RELEASE = {
    "build": {"contents": "read", "id-token": "write", "attestations": "write"},
    "publish-packages": {"id-token": "write"},
    "publish-image": {"contents": "read", "packages": "write"},
    "announce": {"contents": "write"},
}
ACTION = re.compile(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})")


def jobs(workflow: Any) -> dict[str, dict[str, Any]]:
    return dict(workflow["jobs"])


def steps() -> Iterator[dict[str, Any]]:
    for path in WORKFLOWS:
        for job in jobs(yaml.safe_load(path.read_text())).values():
            yield from job.get("steps", [])


COMMANDS = sorted({step["run"] for step in steps() if "run" in step})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    """It is a recipe, a file of the repository, or a program that every runner has."""
    recipes = subprocess.run([f"{sys.prefix}/bin/just", "--summary"], cwd=REPOSITORY, capture_output=True, text=True)

    assert command.split()[0] in OF_THE_RUNNER + OF_THE_ENVIRONMENT
    assert set(re.findall(r"bin/just ([\w-]+)", command)) <= set(recipes.stdout.split())
    assert [name for name in FILE.findall(command) if not (REPOSITORY / name).is_file()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_no_expression(command: str) -> None:
    """The name of a tag or a branch would become a part of the command; variables do not."""
    assert "${{" not in command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_permissions_are_given_where_they_are_needed(path: Any) -> None:
    """A workflow may read the sources; only jobs of a release may do more."""
    workflow = yaml.safe_load(path.read_text())
    more = {name: job["permissions"] for name, job in jobs(workflow).items() if "permissions" in job}

    assert workflow["permissions"] == {"contents": "read"}
    assert more == ({} if path.stem == "ci" else RELEASE)


def test_actions_have_a_version() -> None:
    """No branch of somebody else is run as it is today."""
    used = [step["uses"] for step in steps() if "uses" in step]

    assert used
    assert [action for action in used if not ACTION.fullmatch(action)] == []


def test_every_python_that_the_package_names_is_tried() -> None:
    """CI runs everything with the oldest and the newest Python, and the quick half with those between."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = [words[-1] for words in map(str.split, project["classifiers"]) if words[0] == "Programming"]
    ci = jobs(yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text()))

    assert [PYTHON_OF[debian] for debian in ci["all"]["strategy"]["matrix"]["debian"]] == [named[0], named[-1]]
    assert ci["quick-half"]["strategy"]["matrix"]["python"] == named[1:-1]


def test_nothing_is_published_before_everything_holds() -> None:
    """Each job that publishes waits for CI and the deep tests, itself or through another."""
    release = jobs(yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text()))

    before = {"ci", "deep", "build"}
    assert before == set(release["publish-packages"]["needs"]) == set(release["publish-image"]["needs"])
    assert release["announce"]["needs"] == ["publish-packages"]
    assert release["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert {"bash .ci/run", "bash .ci/run deep"} <= set(COMMANDS)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_can_be_filled_in(path: Any) -> None:
    """Every field has a name of its own and a label."""
    form = yaml.safe_load(path.read_text())
    fields = [part for part in form["body"] if part["type"] != "markdown"]

    assert form["name"]
    assert form["description"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)


def test_hooks_are_tools_of_the_environment() -> None:
    """They fetch nothing, and `just check` runs them too."""
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    (local,) = config["repos"]
    tools = [hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in local["hooks"]]
    checks = subprocess.run(
        [f"{sys.prefix}/bin/just", "--show", "check"], cwd=REPOSITORY, capture_output=True, text=True
    )

    assert local["repo"] == "local"
    assert [tool for tool in tools if f"    {tool}" not in checks.stdout] == []
