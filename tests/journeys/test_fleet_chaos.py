"""Three hosts, three NATS servers, and everything goes wrong; `just chaos --fleet` plays it with more, for longer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from bench.chaos.namespaces import obstacle
from tests.support.chaos_run import clean_report
from tests.support.depth import by_depth
from tests.support.hotseat import START_S
from tests.support.llama import REPOSITORY
from tests.support.processes import all_pids, command_line, environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SEED = "2580"
"""It kills a host and the leader of NATS and cuts a host off from all before anything else."""
MINUTES = by_depth("0.9", deep="2")
FIRST = ("kill -9 of a host", "kill -9 of NATS' leader", "a host is cut off from all")


@pytest.fixture
def namespaces() -> None:
    """Skips where there can be none."""
    if problem := obstacle():
        pytest.skip(problem)


@pytest.mark.llama
@pytest.mark.deep
@pytest.mark.timeout(420)
def test_a_fleet_in_chaos_violates_nothing() -> None:
    """Nothing is executed twice on any hosts, what breaks does so visibly, and hosts say no more when asked more."""
    report = clean_report("--fleet", "3", "--seed", SEED, "--minutes", MINUTES)

    assert all(re.search(rf"^{fault} +[1-9]", report, re.MULTILINE) for fault in FIRST)


NETWORK_SEED = "1714"
"""It cuts the fleet in halves, takes a host's power and a host's clients before anything else."""
FIRST_OF_NETWORK = ("the fleet is cut in halves", "power failure of a host", "a host is cut off from clients")


@pytest.mark.llama
@pytest.mark.deep
@pytest.mark.timeout(420)
@pytest.mark.usefixtures("namespaces")
def test_a_fleet_in_network_namespaces_violates_nothing() -> None:
    """The same if packets are lost between real addresses, in any direction, and a host ends without a FIN."""
    report = clean_report("--fleet", "3", "--namespaces", "--seed", NETWORK_SEED, "--minutes", "0.9")

    assert all(re.search(rf"^{fault} +[1-9]", report, re.MULTILINE) for fault in FIRST_OF_NETWORK)
    assert re.search("dropped or refused:.* the fleet is cut in halves: [1-9]", report)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("namespaces")
def test_a_run_in_network_namespaces_that_is_ended_early(number: int, tmp_path: Path) -> None:
    """No process of it is left, and no file either; after SIGKILL the next run removes the files."""
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "bench.chaos", "--fleet", "3", "--namespaces"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}

    def processes() -> list[int]:
        return [pid for pid in all_pids() if f"TMPDIR={tmp_path}".encode() in environment(pid)]

    def has_servers() -> bool:
        return any("nats-server" in command_line(pid) for pid in processes())

    with subprocess.Popen(argv, cwd=REPOSITORY, env=environ, stderr=subprocess.DEVNULL) as run:
        eventually(has_servers, within=START_S)
        run.send_signal(number)

    eventually(lambda: not processes())
    [*left] = tmp_path.iterdir()
    assert bool(left) is (number == signal.SIGKILL)
