"""`hotseat doctor --report`: models are loaded, swapped and woken, and the figures are there to be sent."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import streaming_server
from tests.support.certificate import CERTIFICATE
from tests.support.hotseat import MARK, PROGRAM
from tests.support.llama import REPOSITORY, llama
from tests.support.ports import free_port
from tests.support.processes import all_pids, environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.timeout(180)

SECRET = "canary-1f0e5c7a9b"
STAND_IN = REPOSITORY / "tests/support/vllm_stand_in.py"


def vllm() -> dict[str, Any]:
    program = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(STAND_IN))}"
    command = f"{program} --port ${{PORT}} --enable-sleep-mode --load 0.5"
    return {"cmd": command, "env": ["VLLM_SERVER_DEV_MODE=1"], "sleep": "vllm"}


def reported(folder: Path, config: Mapping[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """Where no server runs at the address of this configuration."""
    (folder / "config.yaml").write_text(json.dumps(config))
    environ = {**os.environ, MARK: str(folder), "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    command = [str(PROGRAM), "doctor", "--report", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)


def test_a_report_without_a_server(tmp_path: Path) -> None:
    """It starts one, compares the estimate with what real servers take, swaps two models, and leaves nothing behind."""
    models = {name: llama(name, f"--api-key {SECRET}") for name in ("alpha", "beta")}
    done = reported(tmp_path, {"listen": f"127.0.0.1:{free_port()}", "models": models}, "--json")
    facts = json.loads(done.stdout)
    steps = [(step["step"], step["phases"]) for step in facts["steps"]]

    assert (done.returncode, facts["problem"]) == (0, ""), done.stderr
    assert steps == [
        ("load alpha", {"alpha": "ready", "beta": "cold"}),
        ("load beta", {"alpha": "cold", "beta": "ready"}),
        ("load alpha", {"alpha": "ready", "beta": "cold"}),
    ]
    for model in facts["models"]:
        needed, use = sum(model["estimated"]["needed"].values()), model["measured"]["ram"]
        assert 0.3 < needed / (use["anonymous"] + use["file_backed"]) < 3
    assert all(step["seconds"] > 0 for step in facts["steps"])
    assert facts["devices"][-1]["device"] == "ram"
    assert "version: " in str(facts["versions"]["programs"])
    assert SECRET not in done.stdout
    assert str(tmp_path) not in done.stdout
    mark = f"{MARK}={tmp_path}".encode()
    eventually(lambda: not [pid for pid in all_pids() if mark in environment(pid)])


def test_a_report_of_models_that_sleep(serve: Callable[..., Hotseat]) -> None:
    """The running server is used; one model sleeps while the other is loaded, and is woken."""
    hotseat = serve({"one": vllm(), "two": vllm(), "three": llama("alpha")})
    hotseat.write({"listen": f"127.0.0.1:{hotseat.port}", "models": {"one": vllm(), "two": vllm()}})
    done = hotseat.cli("doctor", "--report", "--config", str(hotseat.config), *("--model", "one", "--model", "two"))
    text = done.stdout

    assert done.returncode == 0, done.stderr
    assert text.startswith("#")
    assert "| server | the running one |" in text
    assert re.search(r"\| load one \| \d+\.\d\d \| one ready \|", text)
    assert re.search(r"\| load two \| \d+\.\d\d \| one asleep, two ready \|", text)
    assert re.search(r"\| wake one \| \d+\.\d\d \| one ready, two asleep \|", text)
    assert hotseat.running() == []
    assert re.search(r"\| one \| .* \| ram \d+ MiB.* \| no `devices` configured \|", text)


def test_a_report_while_somebody_uses_the_server(serve: Callable[..., Hotseat], tmp_path: Path) -> None:
    """It unloads nothing, and says when to try again."""
    command = [sys.executable, streaming_server.__file__, "${PORT}", str(tmp_path / "enough")]
    models = {"alpha": {"cmd": " ".join(command)}}
    hotseat = serve(models)
    hotseat.write({"listen": f"127.0.0.1:{hotseat.port}", "models": models})
    stream = hotseat.stream("alpha", max_tokens=200).until_it_speaks()
    done = hotseat.cli("doctor", "--report", "--config", str(hotseat.config))
    (tmp_path / "enough").touch()

    assert stream.read().done
    assert done.returncode == 1
    assert (
        "It ended early: requests are in progress for alpha; run the report when nobody uses the server" in done.stdout
    )
    assert hotseat.running() == ["alpha"]


def test_a_report_of_a_model_that_does_not_start(tmp_path: Path) -> None:
    """What was measured before is there, with the reason."""
    models = {"alpha": llama("alpha"), "dud": {"cmd": "sh -c 'echo no such card; exit 1' ${PORT}"}}
    config = {"listen": f"127.0.0.1:{free_port()}", "models": models}
    done = reported(tmp_path, config, "--model", "alpha", "--model", "dud")
    unknown = reported(tmp_path, config, "--model", "gamma")

    assert done.returncode == 1
    assert re.search(r"\| load alpha \| \d+\.\d\d \| alpha ready \|", done.stdout)
    assert re.search(r"It ended early: .*dud.*no such card", done.stdout)
    assert (unknown.returncode, '"gamma"' in unknown.stderr) == (1, True)


def test_a_report_of_a_configuration_with_tls(tmp_path: Path) -> None:
    """The server that is started has a certificate that nobody trusts, and is asked all the same."""
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    tls = {"cert": str(tmp_path / "cert.pem")}
    config = {"listen": f"127.0.0.1:{free_port()}", "tls": tls, "models": {"alpha": llama("alpha")}}
    done = reported(tmp_path, config)

    assert done.returncode == 0, done.stderr
    assert re.search(r"\| load alpha \| \d+\.\d\d \| alpha ready \|", done.stdout)
