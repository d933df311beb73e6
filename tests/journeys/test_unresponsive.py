"""A model server that stands still: its clients get an error, it is stopped, and the next request starts it again."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support import short_limits
from tests.support.changed_program import changed_program
from tests.support.client import PATIENCE_S
from tests.support.hotseat import Hotseat
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Hotseat]:
    models = {"qwen": stub("qwen", "--token-delay 0.05", unloadTimeout=2 * PATIENCE_S)}
    program = changed_program(tmp_path, short_limits)
    with Hotseat({"models": models, "shutdown": {"notice": "0s"}}, tmp_path, program=program) as rig:
        yield rig


def refusal_of_readiness(rig: Hotseat) -> str:
    answer = rig.call("GET", "/hotseat/ready")
    return answer.json()["error"] if answer.status == 503 else ""


def test_a_server_stopped_amid_a_stream_is_replaced(rig: Hotseat) -> None:
    """Its stream breaks visibly, who waits for a first byte gets 502, readiness ends meanwhile; then all is well."""
    pid = rig.load("qwen")
    stream = rig.stream("qwen", 10_000).until_it_speaks()
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(rig.chat, "qwen")
        unready = eventually(partial(refusal_of_readiness, rig))
        answer = waiting.result()
    stream.read()

    assert "qwen is unresponsive" in unready
    assert not stream.done
    assert answer.status == 502
    assert "qwen is unresponsive" in str(answer.json())
    assert rig.chat("qwen").status == 200
    assert rig.health()["qwen"]["pid"] != pid
    assert rig.call("GET", "/hotseat/ready").status == 200
    assert "model server is unresponsive and is stopped" in rig.log()


def test_a_stopped_server_is_unloaded_at_once(rig: Hotseat) -> None:
    """It is continued, so that it can handle SIGTERM; its unloadTimeout is longer than the client waits."""
    pid = rig.load("qwen")
    os.kill(pid, signal.SIGSTOP)
    answer = rig.call("DELETE", "/upstream/qwen?force=true")

    assert answer.status == 200
    assert "is killed" not in rig.log()
