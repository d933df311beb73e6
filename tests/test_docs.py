"""The documentation is true: links lead somewhere, generated pages are fresh, and the README's example works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from scripts.make_docs import DOCS, pages
from tests.support.client import PATIENCE_S, eventually
from tests.support.hotseat import PROGRAM, free_port
from tests.support.llama import SERVER, model_file, present

if TYPE_CHECKING:
    from pathlib import Path

REPOSITORY = DOCS.parent
README = REPOSITORY / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DEPENDENCY = re.compile(r"[A-Za-z0-9-]+")


def all_pages() -> list[Path]:
    return [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "tests").rglob("*.md")]


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file of the repository."""
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text()) if "://" not in target]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("name", pages())
def test_generated_pages_are_fresh(name: str) -> None:
    """A page that is made from the code says what the code says today."""
    assert (DOCS / name).read_text() == pages()[name], "run `just docs`"


def test_every_dependency_is_argued_for() -> None:
    """The decisions page names each package that hotseat or its tests stand on."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    groups = [entry for group in project["dependency-groups"].values() for entry in group if isinstance(entry, str)]
    names = {DEPENDENCY.match(entry)[0] for entry in [*project["project"]["dependencies"], *groups]}  # type: ignore[index]  # every entry begins with a name
    argued = set(re.findall(r"[a-z0-9-]+", (DOCS / "design/decisions.md").read_text()))

    assert names - argued == set()


def test_every_warning_has_a_paragraph() -> None:
    """Each warning and error that hotseat can log is explained in the how-to."""
    explained = (DOCS / "howto/log-messages.md").read_text()
    sources = "\n".join(path.read_text() for path in sorted((REPOSITORY / "src").rglob("*.py")))
    logged = re.findall(r'log\.(?:warning|error|exception|critical)\(\s*"([^"%=]+?)[ :,]*(?: \w+=|%|")', sources)

    assert logged
    assert [sentence for sentence in logged if f"`{sentence}" not in explained] == []


@pytest.fixture
def desk(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A reader's folder with two model files, and an environment with llama-server and hotseat on the PATH."""
    for name in ("qwen", "gemma"):
        (tmp_path / f"{name}.gguf").symlink_to(model_file("alpha" if name == "qwen" else "beta"))
    path = os.pathsep.join([str(PROGRAM.parent), str(present(SERVER).parent), os.environ["PATH"]])
    return tmp_path, {**os.environ, "PATH": path, "LLAMA_ARG_THREADS": "1"}


@pytest.mark.llama
def test_the_readme_example_works(desk: tuple[Path, dict[str, str]]) -> None:
    """The README's example, pasted block by block, answers for both models; only the port is another one."""
    folder, environment = desk
    config, serve, ask, *_ = (block for _, block in code_blocks(README))
    port = free_port()
    environment |= {"HOTSEAT_URL": f"http://127.0.0.1:{port}"}
    (folder / "config.yaml").write_text(config)
    server = subprocess.Popen(
        ["bash", "-c", f"exec {serve.strip()} --listen 127.0.0.1:{port}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        health = ["curl", "-sf", f"http://127.0.0.1:{port}/health"]
        eventually(lambda: subprocess.run(health, capture_output=True).returncode == 0, within=PATIENCE_S)
        script = "set -e\n" + ask.replace("curl ", "curl -sf ").replace(":8080", f":{port}")
        asked = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=PATIENCE_S)

    assert asked.returncode == 0, f"{asked.stderr}\n{said}"
    assert asked.stdout.count('"choices"') == 2
    assert "gemma needs its room" in asked.stdout
    assert server.returncode == 0


def code_blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_command_is_the_installed_one() -> None:
    """The program under test lies beside the interpreter that runs the tests."""
    assert PROGRAM.exists(), f"install hotseat into the environment of {sys.executable}: `just setup`"
