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


def test_ps_shows_what_runs(house: Hotseat) -> None:
    """ps has a row for a running model, with its phase and its server's pid, and none for a cold one."""
    pid = house.load("alpha")
    printed = house.cli("ps")
    head, *rows = printed.stdout.splitlines()

    assert printed.returncode == 0
    assert head.split()[:3] == ["MODEL", "PHASE", "PID"]
    assert [row.split()[:3] for row in rows] == [["alpha", "ready", str(pid)]]


def test_list_shows_every_model(house: Hotseat) -> None:
    """list has a row for each configured model."""
    printed = house.cli("list", "--json")

    assert [model["model"] for model in json.loads(printed.stdout)] == ["alpha", "beta", "embed"]


def test_load_and_stop(house: Hotseat) -> None:
    """load returns when the model is ready, stop when its process is gone; a second stop fails and says so."""
    loaded = house.cli("load", "beta")
    running = house.running()
    stopped = house.cli("stop", "beta")
    again = house.cli("stop", "beta")

    assert (loaded.returncode, running) == (0, ["beta"])
    assert (stopped.returncode, house.upstreams()) == (0, [])
    assert again.returncode == 1
    assert "beta is not running" in again.stderr


def test_doctor_finds_nothing_wrong_with_a_house_that_works(house: Hotseat) -> None:
    """Its own address is not taken, and its own model server is no orphan."""
    house.load("alpha")
    printed = house.cli("doctor", "--config", str(house.config), "--json")

    findings = {finding["about"]: finding for finding in json.loads(printed.stdout)}
    assert printed.returncode == 0, printed.stdout
    assert findings["programs"]["said"].endswith("llama-server")
    assert findings["orphans"]["state"] == "ok"


def test_logs_show_the_model_servers_words(house: Hotseat) -> None:
    """logs prints what llama-server wrote."""
    house.load("alpha")
    printed = house.cli("logs", "alpha")

    assert printed.returncode == 0
    assert "alpha.gguf" in printed.stdout


def test_devices_shows_what_a_model_takes(house: Hotseat) -> None:
    """devices has the machine's memory and, of each running model, its own and its mapped weights apart."""
    house.load("alpha")
    printed = house.cli("devices", "--json")
    ram = json.loads(printed.stdout)[-1]
    taken = ram["models"]["alpha"]

    assert (printed.returncode, ram["device"], list(ram["models"])) == (0, "ram", ["alpha"])
    assert ram["used"] + ram["free"] == ram["total"]
    assert taken["anonymous"] > 1 << 20
    assert taken["file_backed"] > 1 << 20


def test_why_names_the_cause_of_a_swap(house: Hotseat) -> None:
    """After a swap, why says of the model that left who needed its room."""
    house.load("alpha")
    house.load("beta")
    printed = house.cli("why", "alpha")

    assert printed.returncode == 0
    assert "alpha is cold" in printed.stdout
    assert "unloaded to free memory for beta" in printed.stdout


def test_check_finds_a_misspelt_key(house: Hotseat) -> None:
    """check names the place of a mistake and the nearest key, and exits with 3."""
    good = house.cli("check", str(house.config))
    house.write({"models": {"alpha": llama("alpha", tttl=5)}})
    bad = house.cli("check", str(house.config))

    assert good.returncode == 0
    assert bad.returncode == 3
    assert f"{house.config}:4:5" in bad.stdout + bad.stderr
    assert '"ttl"' in bad.stdout + bad.stderr


def test_a_reload_leaves_unchanged_models_alone(serve: Callable[..., Hotseat]) -> None:
    """A reload keeps the process and the running stream of a model that did not change, and adds new ones."""
    house = serve({"alpha": llama("alpha")})
    pid = house.load("alpha")
    stream = house.stream("alpha", max_tokens=3000).until_it_speaks()
    house.write({"models": {"alpha": llama("alpha", ttl=600), "beta": llama("beta")}})
    printed = house.cli("reload")
    kept = house.health()["alpha"]["pid"]
    stream.read()

    assert (printed.returncode, kept) == (0, pid)
    assert "added: beta" in printed.stdout
    assert (len(stream.words), stream.done) == (3000, True)
    assert house.chat("beta").status == 200


def test_a_bad_reload_changes_nothing(house: Hotseat) -> None:
    """A configuration with a mistake is refused with its place, and the old one stays in use."""
    pid = house.load("alpha")
    house.write({"models": {"alpha": {"command": "llama-server"}}})
    printed = house.cli("reload")

    assert printed.returncode == 3
    assert f"{house.config}:3:5: error: models.alpha.command" in printed.stderr
    assert house.health()["alpha"]["pid"] == pid
