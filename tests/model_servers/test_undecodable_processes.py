"""Name, command line, environment and files of a process may be any bytes: nothing that reads them raises."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.support.guard_owner import open_guard
from tests.support.llama import REPOSITORY
from tests.support.supervisor_rig import is_alive
from tests.support.waiting import come_true, eventually

from hotseat.cli import doctor
from hotseat.memory import amd, kernel, precedence, processes, ram
from hotseat.memory.measurement import Slot
from hotseat.model_servers import load_progress, monitors, orphans, os_processes, ports
from hotseat.model_servers.guarded_process import Order, PipeEnds
from hotseat.model_servers.os_processes import GUARD, MARKER, children
from hotseat.relay.upstream.kernel import is_dying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RAW, SHOWN = b"\xff\xfe", "\ufffd" * 2
WEIGHTS = os.fsdecode(b"weights\xff.gguf")
PROGRAM = """
import mmap, signal, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
with open("/proc/self/comm", "wb") as name:
    name.write(bytes.fromhex("fffe"))
signal.pause()
"""

Reader: TypeAlias = "Callable[[int, Path], object]"
READERS: dict[str, tuple[Reader, object]] = {
    "cli/doctor.py _command_line": (lambda pid, _: RAW in doctor._command_line(pid), True),
    "memory/amd.py on_card": (lambda pid, _: [*amd.on_card(pid, Slot(0, 1, 0, 0), kernel.PROC)], []),
    "memory/kernel.py is_hidden": (lambda pid, _: kernel.is_hidden(pid), False),
    "memory/kernel.py open_files": (lambda pid, _: "0" in kernel.open_files(pid), True),
    "memory/precedence.py full_name": (lambda pid, _: precedence.full_name(the(pid)), SHOWN),
    "memory/processes.py command_line": (lambda pid, _: processes.command_line(pid)[-1], SHOWN),
    "memory/processes.py look_at": (lambda pid, _: the(pid).name, SHOWN),
    "memory/processes.py started_at": (lambda pid, _: processes.started_at(pid) > 0, True),
    "memory/ram.py resident": (lambda pid, _: ram.resident(pid).total > 0, True),
    "memory/ram.py share_of": (lambda pid, _: ram.share_of(pid) is not None, True),
    "model_servers/load_progress.py process_text": (lambda pid, _: load_progress.taken_in(pid) > 0, True),
    "model_servers/load_progress.py uses": (lambda pid, file: load_progress.uses(pid, [str(file)]), True),
    "model_servers/monitors.py mount_namespace": (lambda pid, _: monitors.is_contained(pid, pid), False),
    "model_servers/orphans.py is_guard": (lambda pid, _: orphans.is_guard(pid), False),
    "model_servers/os_processes.py blocked_signals": (lambda pid, _: os_processes.blocked_signals(pid), 0),
    "model_servers/os_processes.py children": (lambda pid, _: children(pid), []),
    "model_servers/os_processes.py children_of_thread": (
        lambda pid, _: os_processes.children_of_thread(pid, str(pid)),
        [],
    ),
    "model_servers/os_processes.py command_line": (lambda pid, _: os_processes.command_line(pid)[-1], SHOWN),
    "model_servers/os_processes.py stat_of": (lambda pid, _: (os_processes.stat_of(pid) or [b""])[0], b"S"),
    "model_servers/os_processes.py variable_of": (lambda pid, _: os_processes.marker_of(pid), SHOWN),
    "model_servers/ports.py holds": (lambda pid, _: ports.holds(pid, set()), False),
    "model_servers/ports.py name_of": (lambda pid, _: ports.name_of(pid), SHOWN),
    "relay/upstream/kernel.py is_dying": (lambda pid, _: is_dying(pid), False),
}
"""By the function that opens the file: what tells that it has read it, and the right answer."""


def the(pid: int) -> processes.Process:
    found = processes.look_at(pid)
    assert found
    return found


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("models") / WEIGHTS
    file.write_bytes(b"GGUF")
    return file


@pytest.fixture(scope="module")
def process(weights: Path) -> Iterator[int]:
    """Its parent passes for a guard, or the next hotseat would end it: it has a marker."""
    program: list[str | bytes] = ["env", MARKER.encode() + b"=" + RAW, sys.executable, "-c", PROGRAM, str(weights), RAW]
    with subprocess.Popen(["sh", "-c", '"$@" & wait', GUARD, *program]) as parent:
        (pid,) = eventually(lambda: children(parent.pid))
        eventually(lambda: Path(f"/proc/{pid}/comm").read_bytes() == RAW + b"\n")
        eventually(lambda: os_processes.stat_of(pid)[:1] == [b"S"])  # type: ignore[index]
        yield pid
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("reader", READERS)
def test_a_process_with_undecodable_words(process: int, weights: Path, reader: str) -> None:
    """Every reader answers as for any other process."""
    read, answer = READERS[reader]

    assert read(process, weights) == answer


def test_every_reader_is_in_the_table() -> None:
    """Whoever reads more of other processes must add it here."""
    assert {*readers()} == {*READERS}


def readers() -> Iterator[str]:
    """The functions whose source contains the path of a file of one process."""
    root = REPOSITORY / "src/hotseat"
    of_process = re.compile(r"(\{PROC\}|\{proc\}|/proc)/\{[\w.]*(pid|parent)")
    for source in root.rglob("*.py"):
        text = source.read_text()
        if not of_process.search(text):  # to parse all files takes ten seconds
            continue
        for each in ast.walk(ast.parse(text)):
            if isinstance(each, ast.FunctionDef) and of_process.search(ast.unparse(each)):
                yield f"{source.relative_to(root)} {each.name}"


async def test_a_servers_child_has_an_undecodable_marker(nobody_is_left: None) -> None:
    """It ends with its server, and the guard and the other servers go on."""
    sh, sleep = shutil.which("sh") or "", shutil.which("sleep") or ""
    child = f"{MARKER}=$(printf '\\377') setsid sleep 1000 & exec sleep 1000"
    guard = await open_guard()
    before = guard.pid
    other = await guard.spawn(Order(sleep, ("sleep", "1000"), {}), nowhere())
    server = await guard.spawn(Order(sh, ("sh", "-c", child), {**os.environ}), nowhere())
    await come_true(lambda: any(os_processes.marker_of(pid) == SHOWN[:1] for pid in children(server.pid)))
    (detached,) = children(server.pid)
    server.begin_stop()
    server.signal(signal.SIGTERM)
    await server.gone

    assert not is_alive(detached)
    assert guard.pid == before
    assert is_alive(other.pid)
    await guard.aclose()


def nowhere() -> PipeEnds:
    return PipeEnds(os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_RDONLY))
