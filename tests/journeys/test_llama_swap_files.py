"""Files as people write them for llama-swap, served unchanged: each name is asked for once, and the server behind it
says how it was started and what it was asked. The servers are stubs on the PATH; everything else is real."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import any_files
from tests.support.changed_program import changed_program
from tests.support.hotseat import START_S, Hotseat
from tests.support.ports import free_port
from tests.support.stub_programs import stub_programs
from tests.support.waiting import eventually

from hotseat.cli.check import check

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = Path(__file__).parents[1] / "config/samples/served"
KEYS = {"HOME_KEY": "sk-at-home-and-nowhere-else", "PROVIDER_KEY": "sk-provider", "HF_TOKEN": "hf-secret"}
KEY = {"Authorization": f"Bearer {KEYS['HOME_KEY']}"}
ASKED = {"temperature": 1, "top_p": 1, "top_k": 3}
NAMES = sorted(path.stem for path in SAMPLES.glob("*.yaml") if ".expected" not in path.name)


def hotseat_at(folder: Path, config: Path | dict[str, Any], environ: dict[str, str]) -> Hotseat:
    """The files that the commands name are nowhere, and its servers are stubs that need none."""
    return Hotseat(config, folder, environ=environ, program=changed_program(folder, any_files))


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A PATH on which every model server is a stub, and a peer that runs."""
    stubs = stub_programs(tmp_path, "cellar")
    port = free_port()
    with subprocess.Popen([str(tmp_path / "bin/cellar"), "--port", str(port)]) as cellar:
        eventually(lambda: is_open(port), within=START_S)
        yield {**KEYS, **stubs, "CELLAR_URL": f"http://127.0.0.1:{port}"}
        cellar.terminate()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def expected_of(name: str) -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load((SAMPLES / f"{name}.expected.yaml").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_serves_every_name_it_gives(name: str, tmp_path: Path, environ: dict[str, str]) -> None:
    """Each server gets the words and the environment the file gives it, and each request what the file makes of it."""
    expected = expected_of(name)
    with hotseat_at(tmp_path, SAMPLES / f"{name}.yaml", environ) as rig:
        seen = {model: called(rig, model, each) for model, each in expected.items()}

    assert seen == expected


def called(rig: Hotseat, model: str, expected: dict[str, Any]) -> dict[str, Any]:
    """What a server tells of a request for `model`, as far as `expected` has fields for it."""
    answer = rig.call("POST", "/v1/chat/completions", {"model": model, **ASKED}, **KEY)
    assert answer.status == 200, (model, answer.body)
    body = answer.json()
    body["argv"] = shlex.join(body["argv"]).replace(str(body["port"]), "PORT")
    for part in ("env", "headers"):
        body[part] = {key: body[part].get(key) for key in expected.get(part, {})}
    if "beside" in expected:
        body["beside"] = expected["beside"]
        eventually(lambda: sorted(rig.running()) == sorted([*expected["beside"], model]))  # a preload may be under way
    return {part: body[part] for part in expected}


def test_keys_of_hotseat_stay_with_hotseat(tmp_path: Path, environ: dict[str, str]) -> None:
    """Neither variables nor headers pass on our keys or those of peers; a server may have a key of its own."""
    with hotseat_at(tmp_path, SAMPLES / "peers.yaml", environ) as rig:
        body = rig.call("POST", "/v1/chat/completions", {"model": "pocket"}, **KEY).json()

    assert {"HOME_KEY", "PROVIDER_KEY"}.isdisjoint(body["env"])
    assert KEY["Authorization"] != body["headers"].get("authorization")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_found_right(
    name: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` finds no error in it and tells what differs with file, line and column."""
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)

    assert check([SAMPLES / f"{name}.yaml"], as_json=False, lenient=False) == 0

    body = capsys.readouterr()
    places = [line for line in (body.err + body.out).splitlines() if ": note: " in line or ": warning: " in line]
    assert all(re.match(rf".*/{name}\.yaml:\d+:\d+: (note|warning): ", line) for line in places)


def test_a_web_page_is_served_under_its_own_path(tmp_path: Path, environ: dict[str, str]) -> None:
    """ComfyUI is reached under /comfyui/, as in llama-swap."""
    with hotseat_at(tmp_path, SAMPLES / "comfyui.yaml", environ) as rig:
        answer = rig.call("GET", "/comfyui/prompt?x=1")

    assert answer.json()["path"] == "/prompt?x=1"
    assert answer.json()["argv"][0] == "comfy"


def test_a_profile_stays_over_a_reload(tmp_path: Path, environ: dict[str, str]) -> None:
    """Until somebody says otherwise, names lead where the profile says."""
    with hotseat_at(tmp_path, SAMPLES / "selectors.yaml", environ) as rig:
        said = [rig.cli("profile", "night").stdout, rig.cli("reload").stdout]
        night = rig.call("POST", "/v1/chat/completions", {"model": "best"})
        off = rig.call("POST", "/v1/chat/completions", {"model": "large"})
        said.append(rig.cli("profile", "--off").stdout)
        day = rig.call("POST", "/v1/chat/completions", {"model": "best"})

    assert said == [
        "profile night is active\n",
        "the configuration was reloaded; nothing changed\n",
        "no profile is active\n",
    ]
    assert night.json()["body"] == {"model": "small"}
    assert off.status == 404
    assert day.json()["body"] == {"model": "large"}


def test_what_is_preloaded_is_there_before_anybody_asks(tmp_path: Path, environ: dict[str, str]) -> None:
    """In the order of the list, and an alias will do."""
    with hotseat_at(tmp_path, SAMPLES / "retrieval.yaml", environ) as rig:
        eventually(lambda: rig.running() == ["bge-m3", "bge-reranker"])


def test_another_hotseat_may_be_a_peer(tmp_path: Path, environ: dict[str, str]) -> None:
    """Asked here, loaded there: the other one starts the model, this one shows it and starts nothing."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    model = {"cmd": "llama-server --port ${PORT} -m far.gguf"}
    with hotseat_at(theirs, {"models": {"far": model}}, environ) as other:
        config = {"models": {"near": model}, "peers": {"cellar": {"proxy": other.url, "models": ["far"]}}}
        with hotseat_at(ours, config, environ) as rig:
            answer = rig.call("POST", "/v1/chat/completions", {"model": "cellar/far"})
            running = rig.running(), other.running()
            listed = [entry["id"] for entry in rig.call("GET", "/v1/models").json()["data"]]

    assert answer.json()["body"] == {"model": "far"}
    assert running == ([], ["far"])
    assert listed == ["near", "cellar/far"]
