"""hotseat on another Python is measured in a root directory of its own, and both are compared in one table."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bench.relay.figures import Sample
from bench.relay.processes import Failure
from bench.relay.python_versions import TwoPythons
from bench.relay.pythons import interpreter
from bench.relay.record import Record
from bench.relay.roots import MACHINE, inside, usable
from tests.support.waiting import PATIENCE_S

OLD, NEW = "Python 3.11.2", "Python 3.14.0"
SAMPLES = [
    Sample("bare", "unary-16", 0, {"per_s": 900.0, "p50_us": 9.0}),
    Sample(NEW, "unary-16", 0, {"per_s": 60.0, "cpu_us": 80.0}),
    Sample(OLD, "unary-16", 0, {"per_s": 50.0, "cpu_us": 100.0}),
    Sample(OLD, "unary-16", 1, {"per_s": 20.0, "cpu_us": 300.0}),
    Sample(NEW, "unary-16", 1, {"per_s": 30.0, "cpu_us": 150.0}),
    Sample(OLD, "unary-1", 0, {"p50_us": 99.0, "cpu_us": 200.0}),
    Sample(NEW, "unary-1", 0, {"p50_us": 99.0, "cpu_us": 200.0}),
]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root directory")


def small_root(folder: Path) -> Path:
    """A root directory with a shell and nothing else."""
    said = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    for file in ["/bin/sh", *re.findall(r"/\S+", said)]:
        (folder / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file[1:])
    (folder / "etc").mkdir()
    return folder


def test_the_page_compares_two_pythons() -> None:
    """The old Python comes first, ratios are of each round, and delays and the bare model server are left out."""
    builds = {OLD: "of Debian 12", NEW: "of Debian sid"}
    page = TwoPythons(Record("2026-01-01", "a machine", builds, 2, 60.0, SAMPLES, 0.031, 0.25), OLD, NEW).page()
    begin = page.index("|  |")

    assert page[begin : page.index("\n\n", begin)].splitlines() == [
        "|  | CPU-µs, 1 connection | 16 connections | requests/s, 16 |",
        "| --- | --- | --- | --- |",
        "| Python 3.11.2 | 200 | 200 [100–300] | 35 [20–50] |",
        "| Python 3.14.0 | 200 | 115 [80–150] | 45 [30–60] |",
        "| ratio | 1 [1–1] | 0.65 [0.5–0.8] | 1.35 [1.2–1.5] |",
    ]
    assert "## Streams" not in page
    assert "3 % of its time went to other machines, 25 % to other programs\n- Python 3.11.2 of Debian 12, Py" in page
    assert "$" not in page


@only_root
def test_a_command_in_another_root_keeps_its_pid_and_the_paths_of_the_run(tmp_path: Path) -> None:
    """Processor time is read by pid; the configuration and the repository are at their places; mounts end with it."""
    root, file = small_root(tmp_path / "root"), tmp_path / "pid"
    script = f"echo $$ >{file}; [ -e {Path(__file__)} ] && [ -e /proc/self ] && [ ! -e /usr/bin/env ]"
    with subprocess.Popen(inside(root, "/bin/sh", "-c", script)) as process:
        assert process.wait(PATIENCE_S) == 0

    assert int(file.read_text()) == process.pid
    assert str(root) not in Path("/proc/mounts").read_text()


def test_a_command_on_the_machine_itself_runs_as_it_is() -> None:
    """The system's Python needs no other root directory."""
    assert inside(MACHINE, "true", "--help") == ["true", "--help"]


def test_a_python_of_another_root_has_its_version_in_its_name(tmp_path: Path) -> None:
    """An environment of an earlier Python is not used with a later one."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3.14").touch()
    (tmp_path / "usr/bin/python3").symlink_to("python3.14")

    assert interpreter(tmp_path) == "/usr/bin/python3.14"


@only_root
def test_a_root_without_a_python_is_refused(tmp_path: Path) -> None:
    """The failure names the directory and the command that makes one."""
    with pytest.raises(Failure, match=rf"{tmp_path} has no /usr/bin/python3: `just pythons FOLDER sid`"):
        usable(tmp_path)
