"""Models side by side, as far as memory allows: eight real servers whose memory is measured during many requests."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from bench.memory.play import MIB, SMALL, make_models, play, trace
from tests.support.depth import by_depth
from tests.support.llama import command, llama
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = [pytest.mark.llama, pytest.mark.timeout(180)]

BUDGET = 420 * MIB
REQUESTS = by_depth(80, deep=200)


def test_models_yield_memory_to_a_program(serve: Callable[..., Hotseat], tmp_path: Path) -> None:
    """While it runs requests are refused with the reason; when it is gone the next request loads its model."""
    rig = serve({"alpha": llama("alpha")}, yieldTo=["precious*"])
    rig.load("alpha")
    program = tmp_path / "precious-game"
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as game:
        try:
            eventually(lambda: not rig.upstreams())
            meanwhile = rig.chat("alpha")
        finally:
            game.kill()
    eventually(lambda: rig.chat("alpha").status == 200)

    assert (meanwhile.status, meanwhile.headers["Retry-After"]) == (503, "30")
    assert f"precious-game is running (pid {game.pid})" in meanwhile.body.decode()


def test_two_models_on_one_fixed_port(serve: Callable[..., Hotseat]) -> None:
    """There is memory for both, but one address: they swap, and a third one stays loaded beside them."""
    port, known = free_port(), {"memory": "1GiB"}
    twins = {
        name: {"cmd": command(name, port), "proxy": f"http://localhost:{port}", **known} for name in ("alpha", "beta")
    }
    rig = serve({**twins, "embed": llama("alpha", **known)}, devices={"gpu0": {"memory": "24GiB"}})
    answers = [rig.chat(name).status for name in ("embed", "alpha", "beta", "alpha")]

    assert answers == [200] * 4
    assert sorted(rig.running()) == ["alpha", "embed"]


@pytest.mark.longer
def test_many_models_share_the_memory_there_is(tmp_path: Path) -> None:
    """Nobody said how large they are; the budget holds all the same, and most loads are saved."""
    models = make_models(tmp_path, SMALL)
    asked = trace(list(models), REQUESTS)
    together = play(tmp_path / "together", models, asked, BUDGET)
    alone = play(tmp_path / "alone", models, asked, None)

    assert together.requests == REQUESTS
    assert not together.problems
    assert not alone.problems
    assert together.peak <= 1.05 * BUDGET, together
    assert together.looks > REQUESTS / 4, together
    assert alone.loads >= 2.5 * together.loads, (alone, together)
