"""The programs that a measurement needs, from the system or made once in .cache, and the upstreams of the proxies."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from bench.relay.processes import LOAD_CORE, Failure, pinned
from tests.support.llama import command

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CACHE = REPOSITORY / ".cache/bench"
PACKAGES = {
    "nginx": "nginx-light",
    "haproxy": "haproxy",
    "wrk": "wrk",
    "gcc": "gcc",
    "taskset": "util-linux",
    "perf": "linux-perf",
}


def program(name: str) -> str:
    """The path of a system program; installs Debian's package if it is missing and we have permission."""
    path = found(name)
    if path is None:
        install(PACKAGES[name])
        path = found(name)
    if path is None:
        raise Failure(f"{name} is still missing after its package was installed")
    return path


def found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def install(package: str) -> None:
    command = ["apt-get", "install", "-y", "--no-install-recommends", package]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failure(f"{package} is missing: install it (`sudo {' '.join(command)}`), or leave it out with --proxies")
    run([*command], f"cannot install {package}; try `apt-get update`")


def c_program(name: str) -> Path:
    """Our own load generator and upstream, compiled again when a source is newer."""
    target, sources = CACHE / name, [HERE / f"{name}.c", HERE / "event.h"]
    if is_stale(target, sources):
        run([program("gcc"), "-O2", "-Wall", "-o", str(target), str(sources[0])], f"cannot compile {sources[0]}")
    return target


def is_stale(target: Path, sources: list[Path]) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    return not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime for source in sources)


def run(argv: list[str], problem: str, folder: Path | None = None, settings: dict[str, str] | None = None) -> None:
    print(f"  {' '.join(argv[:4])} …", file=sys.stderr)
    done = subprocess.run(
        argv, cwd=folder, env={**os.environ, **(settings or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failure(f"{problem}:\n{(done.stdout + done.stderr)[-2000:]}")


@dataclass(frozen=True, slots=True)
class Counts:
    accepted: int
    requests: int
    streams: int


def bench_command(port: int) -> list[str]:
    return pinned([str(c_program("upstream")), str(port)], LOAD_CORE)


def llama_command(port: int) -> list[str]:
    return shlex.split(command("alpha", port, "-np 8"))


def counts(port: int) -> Counts:
    """The upstream's counters; this request does not count."""
    try:
        return Counts(**json.loads(fetch(port, "/counts")))
    except OSError as problem:
        raise Failure(f"the upstream on port {port} does not answer: {problem}") from problem


def fetch(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return bytes(answer.read())


def is_healthy(port: int) -> bool:
    try:
        fetch(port, "/health")
    except OSError:
        return False
    return True
