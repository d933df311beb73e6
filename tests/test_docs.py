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
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = DOCS.parent
README = REPOSITORY / "README.md"
TUTORIAL = DOCS / "tutorial/first-model.md"
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


class Reader:
    """Somebody who pastes a page's commands, block by block; only the port is another one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        path = os.pathsep.join([str(PROGRAM.parent), str(present(SERVER).parent), os.environ["PATH"]])
        said = {"HOME": str(home), "PATH": path, "HOTSEAT_URL": f"http://127.0.0.1:{self.port}"}
        self._environment = {**os.environ, **said, "LLAMA_ARG_THREADS": "1", "LLAMA_ARG_N_PREDICT": "8"}
        self._server: subprocess.Popen[str] | None = None

    def put_model(self, name: str, weights: str, folder: str = "") -> None:
        (self.home / folder).mkdir(exist_ok=True)
        (self.home / folder / f"{name}.gguf").symlink_to(model_file(weights))

    def paste(self, block: str) -> str:
        """Run a block and give what it prints; `hotseat serve` goes on beside."""
        if block.startswith("hotseat serve"):
            self._serve(block.strip())
            return ""
        script = "set -e\n" + block.replace("curl ", "curl -sf ").replace(":8080", f":{self.port}")
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.home, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}\n{done.stdout}"
        self._move_port()
        return done.stdout

    def _move_port(self) -> None:
        """Whoever runs the tests may have a server of their own on the usual port."""
        config = self.home / "config.yaml"
        if config.exists():
            config.write_text(config.read_text().replace(":8080", f":{self.port}"))

    def _serve(self, command: str) -> None:
        argv = ["bash", "-c", f"exec {command} --listen 127.0.0.1:{self.port}"]
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            argv, cwd=self.home, env=self._environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        health = ["curl", "-sf", f"http://127.0.0.1:{self.port}/health"]
        eventually(lambda: subprocess.run(health, capture_output=True).returncode == 0, within=PATIENCE_S)

    def leave(self) -> None:
        if self._server:
            self._server.terminate()
            print(self._server.communicate(timeout=PATIENCE_S)[0])
            assert self._server.returncode == 0


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.llama
def test_the_quick_start_works(reader: Reader) -> None:
    """The README's first commands lead from a folder of models to an answer."""
    for name, weights in (("qwen", "alpha"), ("gemma", "beta")):
        reader.put_model(name, weights, "models")
    init, serve, talk = (block for _, block in code_blocks(README, "Quick start"))
    written = reader.paste(init)
    reader.paste(serve)
    said = reader.paste(talk)

    assert written.splitlines()[:3] == ["config.yaml: 2 models (2 chat)", "  gemma", "  qwen"]
    assert "qwen is ready" in said


@pytest.mark.llama
def test_the_smallest_example_works(reader: Reader) -> None:
    """Pasted block by block, it answers for both models, and one of them makes room."""
    for name, weights in (("qwen", "alpha"), ("gemma", "beta")):
        reader.put_model(name, weights)
    config, serve, ask = (block for _, block in code_blocks(README, "Smallest example"))
    (reader.home / "config.yaml").write_text(config)
    reader.paste(serve)
    said = reader.paste(ask)

    assert said.count('"choices"') == 2
    assert "gemma needs its room" in said


@pytest.mark.llama
def test_the_tutorial_works(reader: Reader) -> None:
    """Every command of the first model's page, in its order, but for the installation."""
    for name, weights in (("small", "alpha"), ("large", "beta")):
        reader.put_model(name, weights, "models")
    blocks = [text for kind, text in code_blocks(TUTORIAL) if kind == "sh" and "pip install" not in text]
    said = [reader.paste(block) for block in blocks]

    assert any("2 models" in text for text in said)
    assert any("large is ready" in text for text in said)


def code_blocks(page: Path, section: str = "") -> list[tuple[str, str]]:
    """Language and text of each fenced block, of one section or of the whole page."""
    text = page.read_text()
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_command_is_the_installed_one() -> None:
    """The program under test lies beside the interpreter that runs the tests."""
    assert PROGRAM.exists(), f"install hotseat into the environment of {sys.executable}: `just setup`"
