"""The benchmark measures its services without the model servers, and ends them in any state."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from bench.relay.processes import TICKS_PER_S, Failure, Service, Share, birth, own_s, spent, tree, wait_for
from tests.support.processes import proc_file

if TYPE_CHECKING:
    from pathlib import Path


def state(pid: int) -> bytes:
    return proc_file(pid, "stat").rpartition(b")")[2].split()[0]


def family(service: Service, size: int) -> list[int]:
    """The processes of a service, once there are as many as it starts."""
    wait_for(f"{service.name} did not start {size} processes", lambda: len(service.processes()) == size)
    return service.processes()


def test_a_paused_service_ends_with_its_children(tmp_path: Path) -> None:
    """Leaving the block ends a stopped process and a child that outlives its parent."""
    with Service("shell", ["sh", "-c", "sleep 1000 & wait"], tmp_path / "log") as service:
        pids = family(service, 2)
        service.pause()
        wait_for("nothing was paused", lambda: all(state(pid) == b"T" for pid in pids))

    wait_for("a process is left", lambda: not any(map(birth, pids)))


def test_stolen_time_is_reported() -> None:
    """Stolen time is reported as a share of all processor time."""
    before, after = [50, 0, 10, 900, 0, 0, 0, 40], [80, 0, 20, 940, 0, 0, 0, 60]
    with patch("bench.relay.processes.spent", side_effect=[before, after]):
        assert Share().stolen() == pytest.approx(0.2)
    assert sum(spent()) > 0


def test_the_time_of_other_programs_is_reported() -> None:
    """What the run used itself, what was idle and what was stolen are no part of it."""
    before, after = [50, 0, 10, 900, 0, 0, 0, 40], [80, 0, 20, 940, 10, 0, 0, 50]
    own_s = [1.0, 1.0 + 15 / TICKS_PER_S]
    with (
        patch("bench.relay.processes.spent", side_effect=[before, after]),
        patch("bench.relay.processes.own_s", side_effect=own_s),
    ):
        assert Share().used_by_others() == pytest.approx(0.25)


def test_the_time_of_a_child_is_the_run_s_own() -> None:
    """Processor time of a child process counts when it has ended."""
    before_s = own_s()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"], check=True)

    assert own_s() - before_s >= 0.09


def test_a_model_server_is_no_part_of_its_proxy(tmp_path: Path) -> None:
    """A proxy's upstream is neither paused nor measured with it, but ends with it."""
    (tmp_path / "upstream").symlink_to("/bin/sleep")
    script = f"sleep 1000 & {tmp_path}/upstream 1000 & wait"
    with Service("proxy", ["sh", "-c", script], tmp_path / "log") as service:
        wait_for("the upstream did not start", lambda: len(tree(service.pid, beyond=())) == 3)
        own = family(service, 2)  # until it has become another program, the upstream is a shell of the service
        everyone = tree(service.pid, beyond=())
        service.pause()
        wait_for("nothing was paused", lambda: all(state(pid) == b"T" for pid in own))
        (upstream,) = set(everyone) - set(own)
        wait_for("the upstream was paused, too", lambda: state(upstream) == b"S")

    wait_for("a process is left", lambda: not any(map(birth, everyone)))


def test_a_dead_service_tells_its_last_words(tmp_path: Path) -> None:
    """A failure names the process, its exit status and its output."""
    with Service("proxy", ["sh", "-c", "echo no such port; exit 3"], tmp_path / "log") as service:
        wait_for("it did not end", lambda: state(service.pid) == b"Z")

        with pytest.raises(Failure, match=r"proxy ended with 3; .*log says:\nno such port"):
            service.must_live()
