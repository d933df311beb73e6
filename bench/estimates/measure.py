"""The memory of a real llama-server: the buffers it logs, and what the kernel counts after its context was used."""

from __future__ import annotations

import http.client
import re
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.estimates.shapes import write_zeros
from tests.support.client import send
from tests.support.llama import SERVER, present
from tests.support.ports import free_port
from tests.support.processes import proc_file
from tests.support.waiting import eventually

from hotseat.estimates.estimate import estimate
from hotseat.estimates.files import Disk
from hotseat.estimates.report import Backing, Estimate, Kind, Where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.estimates.cases import Case

    from hotseat.identifiers import Bytes

MIB = 1 << 20
READY_S, ANSWER_S = 60.0, 300.0
LONGEST_PROMPT = 1024
"""A longer prompt takes minutes; the cache is resident from the start, and of the mask only the used part."""

BUFFER = re.compile(r"(\w+)\s+(KV|RS|compute) buffer size =\s*([\d.]+) MiB")
WEIGHTS = re.compile(r"load_tensors:\s+(\w+) model buffer size =\s*([\d.]+) MiB")
MAPPED = "CPU_Mapped"


@dataclass(frozen=True, slots=True)
class Memory:
    """One side of a comparison, in bytes."""

    copied: Bytes
    """Weights outside the file's own pages."""
    cache: Bytes
    compute: Bytes
    anonymous: Bytes
    mapped: Bytes

    @property
    def resident(self) -> Bytes:
        return self.anonymous + self.mapped


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    file: Bytes
    estimated: Memory
    measured: Memory

    @property
    def error(self) -> float:
        """Of the total resident memory, relative to the measured one."""
        return self.estimated.resident / self.measured.resident - 1


def compare(case: Case, folder: Path) -> Result:
    """Make the model, estimate it, start a server with it, use it, and stop it."""
    argv = command(case, folder)
    guessed = estimate(tuple(argv), Disk(folder))
    with running(argv, folder) as (pid, port):
        fill(port)
        measured = weigh(pid, (folder / "log").read_text(errors="replace"), models=2 if case.draft else 1)
    return Result(case, (folder / "model.gguf").stat().st_size, as_memory(guessed), measured)


def command(case: Case, folder: Path) -> list[str]:
    model = write_zeros(folder / "model.gguf", case.shape)
    argv = [str(present(SERVER)), "-m", str(model), *shlex.split(case.options)]
    if case.draft:
        argv += ["-md", str(write_zeros(folder / "draft.gguf", case.draft)), "--spec-type", "draft-simple"]
    return argv


def as_memory(guessed: Estimate) -> Memory:
    def size(*kinds: Kind, part: str = "") -> Bytes:
        held = [line for line in guessed.lines if line.backing is Backing.ANONYMOUS and part in line.what]
        return sum(line.size for line in held if line.kind in kinds)

    return Memory(
        copied=size(Kind.WEIGHTS, Kind.DRAFT, part="weights"),
        cache=size(Kind.KV) + size(Kind.DRAFT, part="cache"),
        compute=size(Kind.COMPUTE) + size(Kind.DRAFT, part="compute"),
        anonymous=guessed.backed(Where.HOST, Backing.ANONYMOUS),
        mapped=guessed.backed(Where.HOST, Backing.MAPPED, Backing.READ_ONCE),
    )


# The server


@contextmanager
def running(argv: list[str], folder: Path) -> Iterator[tuple[int, int]]:
    """A ready server's process and port; the server is killed when the block ends."""
    port = free_port()
    with (folder / "log").open("wb") as log:
        # One thread: two on two busy cores are slower, and the buffers do not depend on it.
        words = [*argv, "--port", str(port), "-t", "1", "-tb", "1", "-lv", "4"]
        server = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        eventually(lambda: is_ready(port, server), within=READY_S)
        yield server.pid, port
    finally:
        server.kill()  # during a prompt it does not react to SIGTERM
        server.wait()


def is_ready(port: int, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise AssertionError(f"llama-server ended with {server.returncode}: {server.args!r}")
    try:
        return call(port, "GET", "/health")[0] == 200
    except OSError:
        return False


def fill(port: int) -> None:
    """Use the context: one prompt as long as a slot, and a short answer."""
    status, body = call(port, "GET", "/slots")
    found = re.search(rb'"n_ctx":\s*(\d+)', body)
    assert found, (status, body)
    letters = min(int(found[1]) - 16, LONGEST_PROMPT)
    status, body = call(port, "POST", "/completion", {"prompt": "a" * letters, "n_predict": 4})
    assert status == 200, body


def call(port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        response = send(connection, method, path, body, {})
        return response.status, response.read()
    finally:
        connection.close()


# Measuring


def weigh(pid: int, log: str, models: int) -> Memory:
    buffers = [(kind, round(float(size) * MIB)) for _, kind, size in BUFFER.findall(log)]
    compute = [size for kind, size in buffers if kind == "compute"]
    sums = {key: int(size) << 10 for key, size in re.findall(r"(\w+):\s+(\d+) kB", rollup(pid))}
    return Memory(
        copied=sum(round(float(size) * MIB) for where, size in WEIGHTS.findall(log) if where != MAPPED),
        cache=sum(size for kind, size in buffers if kind in ("KV", "RS")),
        # llama-server does a dry run before it loads: only the last buffers are real.
        compute=sum(compute[-models:]),
        anonymous=sums["Anonymous"],
        mapped=sums["Rss"] - sums["Anonymous"],
    )


def rollup(pid: int) -> str:
    return proc_file(pid, "smaps_rollup").decode()
