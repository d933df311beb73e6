"""Measure how long `hotseat serve` takes to listen and to answer, and how long commands take.

The installed program is started again and again, in turns with an earlier revision of it. `just bench-start`.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from string import Template
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from bench.relay import pythons
from bench.relay.tools import REPOSITORY
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
PAGE = REPOSITORY / "docs/reference/start.md"
CONFIG = (
    "models: {a: {cmd: 'llama-server -m a.gguf --port ${PORT}'}, b: {cmd: 'llama-server -m b.gguf --port ${PORT}'}}"
)
ASK = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
COMMANDS = (("--help",), ("ps", "--url", "http://127.0.0.1:9"))
TICKS = os.sysconf("SC_CLK_TCK")
GIVE_UP_S = 60.0


class Start(NamedTuple):
    cpu_s: float
    """Of the process, until it listens."""
    listens_s: float
    answers_s: float
    """Until GET /health is answered."""


def main() -> None:
    options = parse_options()
    programs = {"this version": pythons.hotseat() / "bin/hotseat"}
    if options.earlier:
        programs = {options.earlier: pythons.earlier(options.earlier) / "bin/hotseat"} | programs
    starts: dict[str, list[Start]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yaml").write_text(CONFIG)
        for _ in range(options.rounds):
            for name, program in programs.items():
                starts[name].append(started(program, Path(folder)))
    rows = [row(name, starts[name], programs[name], options.rounds) for name in programs]
    print("\n".join(rows))
    if options.write:
        python = pythons.python_version()
        said = Template((HERE / "page.md").read_text())
        PAGE.write_text(
            said.substitute(rows="\n".join(rows), rounds=options.rounds, python=python, cores=os.cpu_count())
        )


def started(program: Path, folder: Path) -> Start:
    port, began = free_port(), monotonic()
    argv = [str(program), "serve", "--config", str(folder / "config.yaml"), "--listen", str(port)]
    with subprocess.Popen(argv, env=environment(folder), stdout=subprocess.DEVNULL) as server:
        try:
            client = connected(port, began)
            listens_s, cpu_s = monotonic() - began, cpu_of(server.pid)
            with client:
                client.sendall(ASK)
                assert client.recv(12) == b"HTTP/1.1 200", f"{program} does not answer"
            return Start(cpu_s, listens_s, monotonic() - began)
        finally:
            server.terminate()


def environment(folder: Path) -> dict[str, str]:
    """As a user has it: the state of other runs is not there, and neither is the repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOTSEAT"))}
    return {**kept, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}


def connected(port: int, began: float) -> socket.socket:
    while monotonic() < began + GIVE_UP_S:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            sleep(0.002)
    raise TimeoutError(f"nobody listens on port {port}")


def cpu_of(pid: int) -> float:
    """User and system time in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_of_command(program: Path, arguments: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name: str, starts: list[Start], program: Path, rounds: int) -> str:
    commands = [[cpu_of_command(program, arguments) for _ in range(rounds)] for arguments in COMMANDS]
    columns: list[Sequence[float]] = [*zip(*starts, strict=True), *commands]
    return f"| {name} | {' | '.join(map(shown, columns))} |"


def shown(figures: Sequence[float]) -> str:
    return f"{median(figures):.2f} [{min(figures):.2f}–{max(figures):.2f}]"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="starts of each program")
    parser.add_argument("--earlier", default="", metavar="REVISION", help="compare with this revision")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(REPOSITORY)}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
