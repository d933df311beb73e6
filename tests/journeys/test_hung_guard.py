"""A guard that stands still: loads fail in seconds and say why, readiness shows it, and hotseat can be stopped."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from tests.support import short_limits
from tests.support.changed_program import changed_program
from tests.support.hotseat import Hotseat
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SOON_S = 60.0
"""The guard has seconds to answer, on a busy machine."""


def stop_guard(rig: Hotseat) -> int:
    (guard,) = rig.processes("hotseat.model_servers.guard_process")
    os.kill(guard, signal.SIGSTOP)
    return guard


def refusal_of_readiness(rig: Hotseat) -> str:
    answer = rig.call("GET", "/hotseat/ready")
    return answer.json()["error"] if answer.status == 503 else ""


def test_a_guard_that_does_not_answer_is_replaced(tmp_path: Path) -> None:
    """The load that met it fails with the reason; the next one works, with a new guard."""
    models = {name: stub(name) for name in ("alpha", "beta")}
    settings = {"groups": {"both": {"swap": False, "members": ["alpha", "beta"]}}, "shutdown": {"notice": "0s"}}
    program = changed_program(tmp_path, short_limits)
    with Hotseat({"models": models, **settings}, tmp_path, program=program) as rig:
        rig.load("alpha")
        hung = stop_guard(rig)
        with ThreadPoolExecutor(1) as other:
            loading = other.submit(rig.chat, "beta")
            unready = eventually(partial(refusal_of_readiness, rig))
            answer = loading.result()
        after = [rig.chat(name).status for name in ("beta", "alpha")]
        is_ready = rig.call("GET", "/hotseat/ready").status

        assert "the guard process, which starts and stops models, has not answered" in unready
        assert answer.status == 503
        assert "the guard process has not answered" in str(answer.json())
        assert (after, is_ready) == ([200, 200], 200)
        assert rig.processes("hotseat.model_servers.guard_process") != [hung]

        stop_guard(rig)
        rig.process.terminate()
        assert rig.process.wait(SOON_S) == 0
        assert not rig.processes()
