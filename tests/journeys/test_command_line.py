"""The other commands of the installed program, beside a running server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


def test_ps_shows_what_runs(rig: Hotseat) -> None:
    """ps has a row for a running model, with its phase and its server's pid, and none for a cold one."""
    pid = rig.load("alpha")
    printed = rig.cli("ps")
    head, *rows = printed.stdout.splitlines()

    assert printed.returncode == 0
    assert head.split()[:3] == ["MODEL", "PHASE", "PID"]
    assert [row.split()[:3] for row in rows] == [["alpha", "ready", str(pid)]]


def test_list_shows_every_model(rig: Hotseat) -> None:
    """list has a row for each configured model."""
    printed = rig.cli("list", "--json")

    assert [model["model"] for model in json.loads(printed.stdout)] == ["alpha", "beta", "embed"]


def test_load_and_stop(rig: Hotseat) -> None:
    """load returns when the model is ready, stop when its process is gone; a second stop fails and says so."""
    loaded = rig.cli("load", "beta")
    running = rig.running()
    stopped = rig.cli("stop", "beta")
    again = rig.cli("stop", "beta")

    assert (loaded.returncode, running) == (0, ["beta"])
    assert (stopped.returncode, rig.upstreams()) == (0, [])
    assert again.returncode == 1
    assert "beta is not running" in again.stderr


def test_doctor_finds_nothing_wrong_with_a_hotseat_that_works(rig: Hotseat) -> None:
    """Its own address is not taken, and its own model server is no orphan."""
    rig.load("alpha")
    printed = rig.cli("doctor", "--config", str(rig.config), "--json")

    findings = {finding["check"]: finding for finding in json.loads(printed.stdout)}
    assert printed.returncode == 0, printed.stdout
    assert findings["programs"]["message"].endswith("llama-server")
    assert findings["orphans"]["state"] == "ok"


def test_logs_show_the_model_servers_words(rig: Hotseat) -> None:
    """logs prints what llama-server wrote."""
    rig.load("alpha")
    printed = rig.cli("logs", "alpha")

    assert printed.returncode == 0
    assert "alpha.gguf" in printed.stdout


def test_logs_show_hotseats_own_lines_among_those_of_the_servers(rig: Hotseat) -> None:
    """In the order of time, which is later by up to 0.1 s for what a server wrote: a tiny one is ready by then."""
    rig.load("alpha")
    printed = [json.loads(line) for line in rig.cli("logs", "--json").stdout.splitlines()]
    times = [line["at"] for line in printed]
    starting, loading, ready = (
        max(n for n, line in enumerate(printed) if words in line["text"])
        for words in ("starting model server model=alpha", "loading model", "model server ready model=alpha")
    )

    assert times == sorted(times)
    assert starting < min(loading, ready)
    assert (printed[starting]["model"], printed[starting]["level"]) == (None, "info")
    assert (printed[loading]["model"], printed[loading]["level"]) == ("alpha", None)


def test_devices_shows_what_a_model_takes(rig: Hotseat) -> None:
    """devices has the machine's memory and, of each running model, its own and its mapped weights apart."""
    rig.load("alpha")
    printed = rig.cli("devices", "--json")
    ram = json.loads(printed.stdout)[-1]
    taken = ram["models"]["alpha"]

    assert (printed.returncode, ram["device"], list(ram["models"])) == (0, "ram", ["alpha"])
    assert ram["used"] + ram["free"] == ram["total"]
    assert taken["anonymous"] > 1 << 20
    assert taken["file_backed"] > 1 << 20


def test_why_names_the_cause_of_a_swap(rig: Hotseat) -> None:
    """After a swap, why says of the model that left for which model and by which rule."""
    rig.load("alpha")
    rig.load("beta")
    printed = rig.cli("why", "alpha")

    assert printed.returncode == 0
    assert "alpha is cold" in printed.stdout
    assert "unloaded for beta: models run one at a time without `devices`" in printed.stdout


def test_check_finds_a_misspelt_key(rig: Hotseat) -> None:
    """check names the place of a mistake and the nearest key, and exits with 3."""
    good = rig.cli("check", str(rig.config))
    rig.write({"models": {"alpha": llama("alpha", tttl=5)}})
    bad = rig.cli("check", str(rig.config))

    assert good.returncode == 0
    assert bad.returncode == 3
    assert f"{rig.config}:4:5" in bad.stdout + bad.stderr
    assert '"ttl"' in bad.stdout + bad.stderr


def test_models_are_listed_with_a_key_for_inference(serve: Callable[..., Hotseat]) -> None:
    """It shows the models that the key may use, as clients see them."""
    key = "key-of-a-colleague"
    models = {"alpha": {**llama("alpha"), "description": "small"}, "beta": llama("beta")}
    rig = serve(models, apiKeys=[{"key": key, "role": "inference", "models": ["alpha"]}])
    listed = rig.cli("list", HOTSEAT_API_KEY=key)
    as_json = rig.cli("list", "--json", HOTSEAT_API_KEY=key)

    assert (listed.returncode, listed.stderr) == (0, "")
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["MODEL", "STATUS", "DESCRIPTION"],
        ["alpha", "unloaded", "small"],
    ]
    assert [model["id"] for model in json.loads(as_json.stdout)] == ["alpha"]


def test_a_server_that_fails_again_and_again_is_reported(serve: Callable[..., Hotseat]) -> None:
    """The client, the log, `ps` and `why` say how often, why and what to do."""
    rig = serve({"dud": {"cmd": "sh -c 'echo error: invalid argument: --ctx-sise; exit 1' ${PORT}"}})
    answers = [rig.chat("dud") for _ in range(2)]
    listed, asked = rig.cli("ps").stdout, rig.cli("why", "dud").stdout
    logged = [json.loads(line) for line in rig.log().splitlines()]
    warned = [line for line in logged if line["message"] == "model server failed to start"][-1]
    cause = "it exited with code 1 while loading. It does not accept an option of `cmd`; the server's output names it."

    assert [answer.status for answer in answers] == [503] * 2
    assert all(cause in text for text in (answers[0].json()["error"], asked, warned["error"]))
    assert "dud failed 2 times in a row; " in listed
    assert "it failed 2 times in a row; " in asked
    assert (warned["level"], warned["failures"], warned["retry_in_s"]) == ("warning", 2, 2)
    assert "--ctx-sise" in warned["error"]


def test_a_reload_leaves_unchanged_models_alone(serve: Callable[..., Hotseat]) -> None:
    """A reload keeps the process and the running stream of a model that did not change, and adds new ones."""
    rig = serve({"alpha": llama("alpha")})
    pid = rig.load("alpha")
    stream = rig.stream("alpha", max_tokens=1000).until_it_speaks()
    rig.write({"models": {"alpha": llama("alpha", ttl=600), "beta": llama("beta")}})
    printed = rig.cli("reload")
    kept = rig.health()["alpha"]["pid"]
    stream.read()

    assert (printed.returncode, kept) == (0, pid)
    assert "added: beta" in printed.stdout
    assert (len(stream.words), stream.done) == (1000, True)
    assert rig.chat("beta").status == 200


def test_a_bad_reload_changes_nothing(rig: Hotseat) -> None:
    """A configuration with a mistake is refused with its place, and the old one stays in use."""
    pid = rig.load("alpha")
    rig.write({"models": {"alpha": {"command": "llama-server"}}})
    printed = rig.cli("reload")

    assert printed.returncode == 3
    assert f"{rig.config}:3:5: error: models.alpha.command" in printed.stderr
    assert rig.health()["alpha"]["pid"] == pid
