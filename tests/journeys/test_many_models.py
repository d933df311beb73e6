"""A configuration with 10,000 models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

MANY = 10_000
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
