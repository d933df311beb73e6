"""An operator's day with a real fleet: two hosts with keys, a real NATS server, and the command line."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet_journey import CONNECT_S, Hosts, nats_cluster
from tests.support.hotseat import PROGRAM
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import Answer

pytestmark = pytest.mark.timeout(180)

KEY = "operators-key"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    keys = [{"key": KEY, "role": "operate"}]
    models = {"qwen": stub("qwen"), "llama": stub("llama"), "slow": stub("slow", "--load-seconds 3")}
    with ExitStack() as stack:
        hosts = Hosts(tmp_path, stack.enter_context(nats_cluster(tmp_path / "nats", 1)), stack)
        for name in ("gpu1", "gpu2"):
            hosts.start(name, models, apiKeys=keys)
        eventually(lambda: residents(hosts, "gpu1") == {"gpu1": [], "gpu2": []}, within=CONNECT_S)
        yield hosts


def type_at(hosts: Hosts, host: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOTSEAT_URL": hosts[host].url, "HOTSEAT_API_KEY": KEY}
    return subprocess.run([PROGRAM, *words], env=env, capture_output=True, text=True)


def residents(hosts: Hosts, seen_by: str) -> dict[str, list[str]]:
    status = json.loads(type_at(hosts, seen_by, "fleet", "status", "--json").stdout)
    return {host["host"]: [each["model"] for each in host["residents"]] for host in status["hosts"]}


def test_a_model_is_moved_asked_about_and_drained_away(hosts: Hosts) -> None:
    """Each command is given to one host and concerns the other: hosts believe each other by the fleet's secret."""
    loaded = type_at(hosts, "gpu2", "load", "qwen")
    eventually(lambda: residents(hosts, "gpu1") == {"gpu1": [], "gpu2": ["qwen"]}, within=CONNECT_S)
    why = type_at(hosts, "gpu1", "why", "qwen")
    moved = type_at(hosts, "gpu1", "fleet", "move", "qwen", "gpu1")
    drained = type_at(hosts, "gpu2", "fleet", "drain", "gpu1")
    eventually(lambda: residents(hosts, "gpu2") == {"gpu1": [], "gpu2": ["qwen"]}, within=CONNECT_S)
    back = type_at(hosts, "gpu2", "fleet", "move", "qwen", "gpu1")

    assert loaded.returncode == 0, loaded.stderr
    assert why.stdout.splitlines()[-1].startswith("it is ready on gpu2: "), why.stdout + why.stderr
    assert moved.stdout == "qwen is ready on gpu1 and has stopped on gpu2\n", moved.stderr
    assert drained.returncode == 0, drained.stderr
    assert (back.returncode, back.stderr) == (
        1,
        "hotseat: qwen cannot move to gpu1, which is drained. First undrain it.\n",
    )


def test_a_host_is_drained_under_load(hosts: Hosts) -> None:
    """A model in use is ready on the other host before it stops, so no request of any client waits for a load."""
    asked = [ask(hosts, "gpu1")]
    where = next(name for name, models in running(hosts).items() if models)
    other = "gpu2" if where == "gpu1" else "gpu1"
    drained = type_at(hosts, other, "fleet", "drain", where)

    def is_over() -> bool:
        asked.extend(ask(hosts, name) for name in hosts.by_name)
        return running(hosts) == {where: [], other: ["slow"]}

    eventually(is_over, within=CONNECT_S)
    answers = [*asked[1:], *(ask(hosts, name) for name in hosts.by_name)]

    assert drained.stdout.startswith(f"{where} is draining: models in use are loaded on other hosts first"), drained
    assert {answer.status for answer in answers} == {200}
    assert not [waited for answer in answers if (waited := answer.headers["Hotseat-Waited"])]


def ask(hosts: Hosts, name: str) -> Answer:
    return hosts[name].chat("slow", authorization=f"Bearer {KEY}")


def running(hosts: Hosts) -> dict[str, list[str]]:
    asked = {name: host.call("GET", "/running", authorization=f"Bearer {KEY}") for name, host in hosts.by_name.items()}
    return {name: answer.json()["running"] for name, answer in asked.items()}
