"""Models that sleep, through the installed program: a stand-in for vLLM, and llama-server's own sleep."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.llama import REPOSITORY, llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

STAND_IN = REPOSITORY / "tests/support/vllm_stand_in.py"


def vllm(options: str = "", **settings: object) -> dict[str, Any]:
    """A model of the stand-in, as one of vLLM is written."""
    program = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(STAND_IN))}"
    command = f"{program} --port ${{PORT}} --enable-sleep-mode --load 0.5 {options}"
    return {"cmd": command, "env": ["VLLM_SERVER_DEV_MODE=1"], "sleep": "vllm", **settings}


def phases(rig: Hotseat) -> dict[str, str]:
    return {model["model"]: model["phase"] for model in rig.call("GET", "/hotseat/models").json()["models"]}


def times(rig: Hotseat, message: str, model: str) -> int:
    return rig.log().count(f'"message": "{message}", "model": "{model}"')


def ask(rig: Hotseat, model: str, seconds: float = 0.0) -> str:
    """Why the answer ended."""
    answer = rig.call("POST", "/v1/chat/completions", {"model": model, "messages": [], "seconds": seconds})
    assert answer.status == 200, answer
    return str(answer.json()["choices"][0]["finish_reason"])


def test_two_models_take_turns_asleep(serve: Callable[..., Hotseat]) -> None:
    """Each is loaded once; after that one sleeps while the other works, and both keep their processes."""
    rig = serve({"one": vllm(), "two": vllm()})
    pids = {name: rig.load(name) for name in ("one", "two")}
    for name in ("one", "two", "one", "two", "one"):
        assert ask(rig, name) == "length"

    assert phases(rig) == {"one": "ready", "two": "asleep"}
    assert rig.running() == ["one"]
    assert rig.health()["one"]["pid"] == pids["one"]
    listed = {model["id"]: model["status"]["value"] for model in rig.call("GET", "/v1/models").json()["data"]}
    assert listed == {"one": "loaded", "two": "unloaded"}
    assert "asleep" in rig.cli("ps").stdout
    metrics = rig.call("GET", "/metrics").body.decode()
    assert 'hotseat_model_phase{model="two",phase="asleep"} 1.0' in metrics
    assert 'hotseat_loads_total{model="two",outcome="ready"} 1.0' in metrics
    assert rig.log().count("starting model server") == 2


def test_nobody_is_aborted_by_a_sleep(serve: Callable[..., Hotseat]) -> None:
    """A model in use finishes before it is put to sleep, and whoever comes meanwhile wakes it later."""
    rig = serve({"one": vllm(), "two": vllm()}, scheduler={"patience": 0})
    rig.load("one")
    with ThreadPoolExecutor(3) as clients:
        first = clients.submit(ask, rig, "one", 1.0)
        eventually(lambda: rig.call("GET", "/hotseat/models/one").json()["in_flight"])
        second = clients.submit(ask, rig, "two")
        eventually(lambda: phases(rig)["one"] == "draining")
        third = clients.submit(ask, rig, "one")

        assert [each.result() for each in (first, second, third)] == ["length"] * 3
    assert "aborted" not in rig.call("GET", "/hotseat/logs?model=one").body.decode()


@pytest.mark.parametrize(
    "trouble", ["sleep refused", "wake refused", "wake hangs", "dies waking", "dies falling asleep"]
)
def test_whatever_goes_wrong_clients_only_wait(serve: Callable[..., Hotseat], trouble: str) -> None:
    """Nobody gets an error for a sleep that failed."""
    sleep = {"server": "vllm", "timeout": "1s"}
    rig = serve({"one": vllm(f"--trouble {shlex.quote(trouble)}", sleep=sleep), "two": vllm()})

    assert [ask(rig, name) for name in ("one", "two", "one", "two", "one")] == ["length"] * 5


def test_a_process_that_dies_asleep(serve: Callable[..., Hotseat]) -> None:
    """The next request starts it as if it had never been there."""
    rig = serve({"one": vllm(), "two": vllm()})
    rig.load("one")
    rig.load("two")
    (pid,) = [model["pid"] for model in rig.call("GET", "/hotseat/models").json()["models"] if model["model"] == "one"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: phases(rig)["one"] == "cold")

    assert ask(rig, "one") == "length"


def test_an_operator_ends_a_sleep(serve: Callable[..., Hotseat]) -> None:
    """`hotseat stop` leaves no process."""
    rig = serve({"one": vllm(), "two": vllm()})
    rig.load("one")
    rig.load("two")
    assert phases(rig)["one"] == "asleep"
    said = rig.cli("stop", "one")

    assert said.returncode == 0, said
    assert phases(rig)["one"] == "cold"


@pytest.mark.llama
def test_llama_server_is_tried_and_then_restarted(serve: Callable[..., Hotseat]) -> None:
    """It sleeps after seconds unused: twice is enough to see that a restart is quicker for a small model."""
    rig = serve({"alpha": llama("alpha"), "beta": llama("beta")})
    longest_s = max(load_s(rig, model) for model in ("alpha", "beta"))
    unused_s = 1 + ceil(3 * longest_s)  # longer than a restart
    alpha = llama("alpha", f"--sleep-idle-seconds {unused_s}", sleep="llama-server")
    rig.write({"models": {"alpha": alpha, "beta": llama("beta")}})
    assert rig.call("POST", "/hotseat/reload").status == 200
    stops = times(rig, "stopping model server", "alpha")
    for _ in range(3):
        assert rig.chat("alpha").status == 200
        assert rig.chat("beta").status == 200

    assert times(rig, "model server asleep", "alpha") == 2
    assert times(rig, "model server awake", "alpha") == 2
    assert times(rig, "stopping model server", "alpha") == stops + 1


def load_s(rig: Hotseat, model: str) -> float:
    began = time.monotonic()
    rig.load(model)
    return time.monotonic() - began
