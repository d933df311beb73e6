"""Two hosts and real llama-servers; the file of the model is on one of the two disks, on none, then on the other."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet_journey import CONNECT_S, Hosts, nats_cluster
from tests.support.llama import llama, model_file
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import Answer

pytestmark = [pytest.mark.llama, pytest.mark.timeout(240)]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """The same models on both hosts, each with the paths of its own disk."""
    with ExitStack() as stack:
        hosts = Hosts(tmp_path, stack.enter_context(nats_cluster(tmp_path / "nats", 1)), stack)
        for name in ("gpu1", "gpu2"):
            cmd = str(llama("alpha")["cmd"]).replace(str(model_file("alpha")), str(tmp_path / f"{name}.gguf"))
            hosts.start(name, {"alpha": {"cmd": cmd}})
        hosts.until_connected()
        yield hosts


def missing(hosts: Hosts, known_to: str = "gpu1") -> dict[str, dict[str, str]]:
    """By host."""
    seen = hosts[known_to].call("GET", "/hotseat/fleet").json()["hosts"]
    return {host["host"]: host["missing_files"] for host in seen}


def refused(hosts: Hosts) -> list[Answer]:
    """The refusal, once gpu1 knows that the model has stopped on gpu2: before that, a load fails there."""
    answer = hosts["gpu1"].chat("alpha")
    return [answer] if "cannot be placed" in answer.body.decode() else []


def test_a_model_whose_file_is_not_on_every_disk(hosts: Hosts, tmp_path: Path) -> None:
    """It is loaded where its file is; without any, the error names hosts and files; a copied file is found."""
    one, other = tmp_path / "gpu1.gguf", tmp_path / "gpu2.gguf"
    shutil.copy(model_file("alpha"), other)
    eventually(lambda: missing(hosts) == {"gpu1": {"alpha": str(one)}, "gpu2": {}}, within=CONNECT_S)
    answer = hosts["gpu1"].chat("alpha")
    served_by = hosts.running()

    hosts["gpu2"].call("DELETE", "/upstream/alpha")
    other.unlink()
    eventually(lambda: set(missing(hosts)["gpu2"]) == {"alpha"}, within=CONNECT_S)
    eventually(lambda: hosts.running() == {"gpu1": [], "gpu2": []}, within=CONNECT_S)
    [refusal] = eventually(lambda: refused(hosts), within=CONNECT_S)

    shutil.copy(model_file("alpha"), one)
    eventually(lambda: not missing(hosts, known_to="gpu2")["gpu1"], within=CONNECT_S)
    later = hosts["gpu2"].chat("alpha")

    assert (answer.status, served_by) == (200, {"gpu1": [], "gpu2": ["alpha"]})
    assert (refusal.status, refusal.headers["x-should-retry"]) == (503, "false")
    assert "retry-after" not in refusal.headers
    assert f"gpu1, gpu2 are missing its file ({one}, {other}). To fix this, copy" in refusal.body.decode()
    assert (later.status, hosts.running()) == (200, {"gpu1": ["alpha"], "gpu2": []})
