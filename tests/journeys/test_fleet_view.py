"""One terminal for a real fleet: models, requests, logs and reasons of all hosts, and restarts one after the other."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.client import PATIENCE_S, Stream, chat_body, send
from tests.support.fleet_journey import CONNECT_S, nats_cluster
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

OPERATOR, ADMIN = "operators-key", "administrators-key"
NAMES = ("gpu1", "gpu2", "gpu3")


class Fleet:
    """Three hosts that are managed through gpu1; only gpu3 has llama, which streams slowly."""

    def __init__(self, folder: Path, stack: ExitStack, kind: type[Hotseat]) -> None:
        nats = stack.enter_context(nats_cluster(folder / "nats", 1))
        keys = [{"key": OPERATOR, "role": "operate"}, {"key": ADMIN, "role": "admin", "name": "root"}]
        self.hosts: dict[str, Hotseat] = {}
        for name in NAMES:
            models = {"llama": stub("llama", "--token-delay 0.1")} if name == "gpu3" else {"qwen": stub("qwen")}
            fleet = {"nats": [server.url for server in nats], "name": name, "secret": "hush"}
            (folder / name).mkdir()
            host = kind({"models": models, "fleet": fleet, "apiKeys": keys}, folder / name)
            self.hosts[name] = stack.enter_context(host)
        eventually(lambda: [each["host"] for each in self.json("fleet", "status")["hosts"]] == [*NAMES], CONNECT_S)
        loaded = self.type("load", "llama", at="gpu3")
        assert loaded.returncode == 0, loaded.stderr
        eventually(lambda: self.models() == [("gpu3", "llama", "ready")], CONNECT_S)

    def type(self, *words: str, key: str = OPERATOR, at: str = "gpu1") -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *words], env=self.environ(key, at), capture_output=True, text=True)

    def environ(self, key: str = OPERATOR, at: str = "gpu1") -> dict[str, str]:
        return {**os.environ, "HOTSEAT_URL": self.hosts[at].url, "HOTSEAT_API_KEY": key}

    def json(self, *words: str) -> Any:
        said = self.type(*words, "--json")
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    def all_requests(self) -> list[dict[str, Any]]:
        """None of them as long as a host is too busy to answer in time."""
        found = self.json("fleet", "requests")
        return [] if found["silent"] else list(found["in_progress"])

    def said_of(self, host: str, *words: str) -> str:
        """Empty as long as that host is too busy to answer in time."""
        said = self.type(*words)
        assert said.returncode == 0, said.stderr
        return said.stdout if f"\n{host}: " in said.stdout else ""

    def models(self) -> list[tuple[str, str, str]]:
        return [(each["host"], each["model"], each["phase"]) for each in self.json("fleet", "ps")]

    def pids(self) -> dict[str, int]:
        """The process of each host that answers new connections."""
        key = {"Authorization": f"Bearer {OPERATOR}"}
        return {name: host.call("GET", "/hotseat/restart", **key).json()["pid"] for name, host in self.hosts.items()}


def stream(host: Hotseat) -> Stream:
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=PATIENCE_S)
    body, key = chat_body("llama", 100_000, stream=True), {"Authorization": f"Bearer {OPERATOR}"}
    return Stream(send(connection, "POST", "/v1/chat/completions", body, key), connection)


def test_an_operator_sees_all_hosts_through_one(tmp_path: Path) -> None:
    """Hosts believe each other by the fleet's secret; a request that gpu2 forwarded to gpu3 is shown once."""
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, stack, ForkedHotseat)
        answer = stream(fleet.hosts["gpu2"]).until_it_speaks()
        found = eventually(fleet.all_requests)
        answer.leave()
        why = eventually(lambda: fleet.said_of("gpu3", "fleet", "why", "llama"))
        first, last = first_lines_of(fleet, "fleet", "logs", "--host", "gpu3", "-f", "-n", "1")

    requests = [(each["host"], each["asked"], each["model"], each["state"]) for each in found]
    assert requests == [("gpu3", "gpu2", "llama", "answering")]
    assert why.startswith("gpu1: llama is not in its configuration\n")
    assert "\ngpu3: llama is ready: " in why
    assert " gpu3 hotseat | " in first
    assert "DELETE /upstream/llama" in last


def first_lines_of(fleet: Fleet, *words: str) -> tuple[str, str]:
    """Of a command that follows a log: one that was there, and one about what happens meanwhile."""
    following = subprocess.Popen([PROGRAM, *words], env=fleet.environ(), stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    try:
        first = following.stdout.readline()
        fleet.type("stop", "llama", at="gpu3")
        last = next(line for line in following.stdout if "audit" in line)
    finally:
        following.kill()
        following.wait()
        following.stdout.close()
    return first, last


def test_hosts_are_restarted_one_after_the_other(tmp_path: Path) -> None:
    """Only an administrator may; each host gets a new process, the asked one last, and the model keeps running."""
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, stack, Hotseat)  # the installed program: a fork of the tests cannot start itself again
        server, before = fleet.hosts["gpu3"].health()["llama"]["pid"], fleet.pids()
        refused = fleet.type("fleet", "restart")
        unchanged = fleet.pids()
        restarted = fleet.type("fleet", "restart", key=ADMIN)
        after, server_after = fleet.pids(), fleet.hosts["gpu3"].health()["llama"]["pid"]
    audit = [json.loads(line) for line in (tmp_path / "gpu3/state/hotseat/audit.jsonl").read_text().splitlines()]

    assert (refused.returncode, unchanged) == (1, before)
    assert "requires an API key with the role admin" in refused.stderr
    assert "not restarted: gpu3, gpu1" in refused.stderr
    assert restarted.returncode == 0, restarted.stderr
    assert [line.split()[0] for line in restarted.stdout.splitlines()] == ["gpu2", "gpu3", "process", "gpu1"]
    assert "with its models: llama" in restarted.stdout
    assert all(after[name] != before[name] for name in NAMES)
    assert server_after == server
    assert ("POST /hotseat/restart", "gpu1", "root") in [
        (entry["action"], entry.get("host"), entry.get("client")) for entry in audit
    ]
