"""The environments of the Python proxies: hotseat as users install it, and the others.

They use the system's Python if there is one. A CPython built without PGO, as pyenv builds it, is slower, and few people
run one: Debian's, the container images' and uv's are built with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from bench.relay.tools import CACHE, HERE, REPOSITORY, install, run

SYSTEM = Path("/usr/bin/python3")
OLDEST = (3, 11)
RIVALS, OURS = REPOSITORY / ".cache/bench-venv", REPOSITORY / ".cache/bench-hotseat"
EARLIER = REPOSITORY / ".cache/bench-earlier"


def rivals() -> Path:
    """The other proxies' environment, apart from hotseat's."""
    return made(RIVALS, HERE / "requirements.txt")


@cache
def hotseat() -> Path:
    """The program, installed from a wheel of the current source."""
    return installed(OURS, REPOSITORY)


@cache
def earlier(revision: str) -> Path:
    """The program as it was in this revision, installed in the same way."""
    source, packed = CACHE / "earlier", CACHE / "earlier.tar"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    run(["git", "archive", "--output", str(packed), revision], f"cannot read {revision}", REPOSITORY)
    run(["tar", "--extract", "--file", str(packed), "--directory", str(source)], f"cannot unpack {revision}")
    return installed(EARLIER, source)


def installed(folder: Path, source: Path) -> Path:
    made(folder, source / "requirements/runtime.txt")
    wheels = CACHE / "dist"
    for old in wheels.glob("*.whl"):
        old.unlink()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)], "cannot build hotseat", source)
    pip(folder, "--no-deps", "--force-reinstall", str(next(wheels.glob("*.whl"))))
    return folder


def made(folder: Path, requirements: Path) -> Path:
    """An environment with these packages, made again when they or the interpreter change."""
    stamp, wanted = folder / "installed.txt", f"{interpreter()}\n{requirements.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        make(folder)
        pip(folder, "--require-hashes", "-r", str(requirements))
        stamp.write_text(wanted)
    return folder


def make(folder: Path) -> None:
    if interpreter() == str(SYSTEM) and not succeeds([str(SYSTEM), "-c", "import ensurepip"]):
        install("python3-venv")
    run([interpreter(), "-m", "venv", "--clear", str(folder)], f"cannot make {folder}")


def pip(folder: Path, *what: str) -> None:
    argv = [str(folder / "bin/python"), "-m", "pip", "install", "-q", *what]
    run(argv, f"cannot install {what[-1]}")


def interpreter() -> str:
    is_young = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    return str(SYSTEM) if SYSTEM.exists() and succeeds([str(SYSTEM), "-c", is_young]) else sys.executable


def python_version() -> str:
    """The version and the distributor of the build."""
    return f"{python_number()}{' as the system has it' if interpreter() == str(SYSTEM) else ''}"


def python_number() -> str:
    argv = [interpreter(), "-V"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()[1]


def version_in(folder: Path, package: str) -> str:
    (site,) = folder.glob("lib/python*/site-packages")
    return next(found.version for found in distributions(name=package, path=[str(site)]))


def succeeds(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
