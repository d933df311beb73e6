"""What people install: both packages are built, and the wheel serves from an environment that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.support.hotseat import Hotseat
from tests.support.llama import REPOSITORY
from tests.support.stubs import stub

from hotseat import __version__ as hotseat_version

# Fetching the requirements takes its time where no cache has them.
pytestmark = pytest.mark.timeout(300)

TOOLS = Path(sys.executable).parent
HIDDEN = ("PYTHONPATH", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH")
PLAIN = {name: value for name, value in os.environ.items() if name not in HIDDEN}
SHIPPED = {".py", ".typed", ".html", ".js", ".css", ".svg", ".png", ".txt", ""}
"""The kinds of files in the wheel; those without a suffix are licences and checksums."""


def run(*words: str | Path, at: Path) -> str:
    """What a command prints; the repository's sources are out of its sight."""
    done = subprocess.run(list(map(str, words)), cwd=at, env=PLAIN, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stderr}\n{done.stdout}"
    return done.stdout


def build(kind: str, source: Path, folder: Path) -> Path:
    run(TOOLS / "hatchling", "build", "-t", kind, "-d", folder, at=source)
    (package,) = folder.iterdir()
    return package


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", REPOSITORY, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", REPOSITORY, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in a fresh environment with the locked requirements and the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    uv, python = TOOLS / "uv", folder / "bin/python"
    run(uv, "venv", "--quiet", "--python", sys.executable, "--clear", folder, at=folder)
    pinned = REPOSITORY / "requirements/runtime.txt"
    run(uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", pinned, at=folder)
    run(uv, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel, at=folder)
    return folder / "bin/hotseat"


def test_the_wheel_holds_what_it_needs_and_no_more(wheel: Path) -> None:
    """Dashboard, API page, types and licences are in it; no tests, sources of the dashboard or source maps."""
    names = ZipFile(wheel).namelist()
    ours = {
        path.relative_to(REPOSITORY / "src").as_posix()
        for path in (REPOSITORY / "src/hotseat").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in names if name.startswith("hotseat/")}
    about = {name for name in names if name.startswith(f"hotseat-{hotseat_version}.dist-info/")}

    assert inside == ours
    assert inside | about == set(names)
    assert {Path(name).suffix for name in inside} == SHIPPED
    assert [name for name in inside if "test" in Path(name).stem.split("_")] == []
    assert {"hotseat/py.typed", "hotseat/dashboard/assets/index.html", "hotseat/api/assets/swagger.html"} <= inside
    assert {name.partition("/licenses/")[2] for name in about} - {""} == {
        "LICENSE",
        "src/hotseat/api/assets/LICENSE",
        "src/hotseat/api/assets/NOTICE",
        "src/hotseat/api/assets/swagger-ui-bundle.js.LICENSE.txt",
        "src/hotseat/dashboard/assets/LICENSES",
    }


@pytest.mark.deep
def test_packages_are_the_same_wherever_they_are_built(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Byte for byte: from a clone or the source package, in any folder and time zone, with any umask and file times."""
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for path in source.rglob("*"):
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    build_elsewhere = f"umask 077; TZ=Asia/Tokyo {TOOLS / 'hatchling'} build -d {tmp_path / 'dist'}"
    run("sh", "-ec", build_elsewhere, at=source)

    for package in (wheel, sdist):
        assert (tmp_path / "dist" / package.name).read_bytes() == package.read_bytes()


def test_the_sdist_holds_every_page_and_file_that_its_readme_names(sdist: Path) -> None:
    """Tests, documentation and container files travel along; nothing that was fetched or built here does."""
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}

    assert {
        "README.md",
        "SECURITY.md",
        "LICENSE",
        "docs/howto/install.md",
        "Dockerfile",
        "compose.yaml",
        "justfile",
    } <= names
    assert {"tests/packaging/test_wheel_and_sdist.py", "requirements/runtime.txt"} <= names
    assert [name for name in names if "node_modules" in name or name.startswith((".cache", ".venv", "site/"))] == []


@pytest.mark.deep
def test_the_installed_program_serves(program: Path, tmp_path: Path) -> None:
    """From an empty environment: it says its version, checks a configuration, answers, and shows its dashboard."""
    config = {"models": {"qwen": stub("qwen")}}
    with Hotseat(config, tmp_path, program=[str(program)], environ={"PYTHONPATH": ""}) as hotseat:
        answer = hotseat.chat("qwen")
        page = hotseat.call("GET", "/hotseat/ui/")

    assert answer.status == 200
    assert answer.text().startswith("qwen")
    assert page.status == 200
    assert run(program, "--version", at=tmp_path) == f"hotseat {hotseat_version}\n"
    assert run(program, "check", hotseat.config, at=tmp_path).startswith("ok: 1 model, 0 warnings.\n")


@pytest.mark.deep
def test_the_installed_program_is_the_wheel_s(program: Path, tmp_path: Path) -> None:
    """The sources of the repository have no part in it."""
    where = run(program.with_name("python"), "-c", "import hotseat; print(hotseat.__file__)", at=tmp_path)

    assert Path(where.strip()).is_relative_to(program.parents[1])
