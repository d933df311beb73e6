"""A configuration with 10,000 models."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fleet_journey import Hosts, nats_cluster
from tests.support.llama import llama

from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.store import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat
    from tests.support.nats import NatsServer

MANY = 10_000
MANY_IN_FLEET = 5_000
START_S = 10.0
"""Of processor time, without the import of the program, which does not depend on models; twice what it takes."""


def processor_time_s(pid: int) -> float:
    """Of a process since it began, in user and kernel mode."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")


def test_start_and_use(serve: Callable[..., Hotseat]) -> None:
    """It is ready within seconds, and one of the models answers."""
    command = {"cmd": "llama-server --port ${PORT} -m /models/${MODEL_ID}.gguf -c 8192", "memory": "12GiB"}
    others: dict[str, Any] = {f"model-{n}": dict(command) for n in range(MANY)}
    hotseat = serve({**others, "alpha": {**llama("alpha"), "memory": "1GiB"}}, devices={"gpu0": {"memory": "24GiB"}})
    took_s = processor_time_s(hotseat.process.pid)

    assert took_s < START_S
    assert hotseat.chat("alpha").status == 200
    assert len(hotseat.call("GET", "/v1/models").json()["data"]) == MANY + 1


def uploads(server: NatsServer) -> int:
    """Catalogs that were ever written to NATS."""
    (account,) = server.monitoring("jsz?streams=true")["account_details"]
    (stream,) = [stream for stream in account["stream_detail"] if stream["name"] == stream_of(Bucket.CATALOGS)]
    return int(stream["state"]["last_seq"])


@pytest.mark.deep
def test_start_in_a_fleet(tmp_path: Path) -> None:
    """Two hosts with the same thousands of models are ready within seconds, and upload their catalog once."""
    command = {"cmd": "llama-server --port ${PORT} -m /models/${MODEL_ID}.gguf -c 8192", "memory": "12GiB"}
    models = {f"model-{n}": dict(command) for n in range(MANY_IN_FLEET)}
    with ExitStack() as stack:
        (server,) = stack.enter_context(nats_cluster(tmp_path / "nats", 1))
        hosts = Hosts(tmp_path, [server], stack)
        for name in ("gpu1", "gpu2"):
            host = hosts.start(name, models, devices={"gpu0": {"memory": "24GiB"}})
            assert processor_time_s(host.process.pid) < START_S * MANY_IN_FLEET / MANY
        hosts.until_connected()

        assert uploads(server) == 1
