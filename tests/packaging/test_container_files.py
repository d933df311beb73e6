"""The container's files are read, since no image is built here; what they count on is tried.

`just try-image` builds and runs it.
"""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.llama import REPOSITORY
from tests.support.stubs import stub
from tests.support.waiting import eventually
from typer.main import get_command

from hotseat.cli.commands import app

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
AS_PROCESS_1 = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture
def service() -> dict[str, Any]:
    return dict(yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["services"]["hotseat"])


def test_the_image_runs_as_nobody_special() -> None:
    """Its user is a number other than root's, which also Kubernetes can judge."""
    (user,) = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)

    assert int(user) > 0
    assert f"--uid {user} " in DOCKERFILE


def test_the_image_keeps_its_state_to_itself() -> None:
    """Hashes of keys and the audit are in it."""
    (made,) = re.findall(r"install -d (.*) /var/lib/hotseat /var/lib/hotseat/cache$", DOCKERFILE, re.MULTILINE)

    assert made == "-m 0700 -o hotseat -g hotseat"


def test_what_the_image_copies_is_let_in() -> None:
    """Each source of a COPY exists, and .dockerignore lets it pass."""
    copies = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for copy in copies for source in copy.split()}
    let_in = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert sources == let_in
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []


def test_open_to_everybody_means_this_machine(service: dict[str, Any]) -> None:
    """The composition serves without keys, so its port is published on the loopback address alone."""
    assert "--allow-open" in service["command"]
    assert [port.rsplit(":", 2)[0] for port in service["ports"]] == ["127.0.0.1"]


def test_the_composition_confines(service: dict[str, Any]) -> None:
    """Nothing is writable but the state and /tmp, and there are no rights to gain."""
    writable = [volume for volume in service["volumes"] if not volume.endswith(":ro")]

    assert service["read_only"]
    assert writable == ["state:/var/lib/hotseat"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_image_is_tried_as_the_composition_runs_it(service: dict[str, Any]) -> None:
    """`just try-image` needs no program for compositions, so it repeats what compose.yaml says."""
    script = (REPOSITORY / "scripts/try_image.sh").read_text()
    start = " ".join(script.partition("start() {")[2].partition("\n}")[0].replace("\\\n", " ").split())
    mounted = [volume.partition(":")[2] for volume in service["volumes"]]

    assert f"hotseat {' '.join(service['command'])} >/dev/null" in start
    assert [volume for volume in mounted if f":{volume}" not in start] == []
    assert f"--read-only --tmpfs {service['tmpfs'][0]} --cap-drop {service['cap_drop'][0]}" in start
    assert f"--security-opt {service['security_opt'][0].removesuffix(':true')}" in start


def test_the_program_knows_the_options_of_the_image_and_the_composition(service: dict[str, Any]) -> None:
    """An option that is renamed must be renamed in these files too."""
    (in_image,) = re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
    known = {option for each in get_command(app).commands["serve"].params for option in each.opts}  # type: ignore[attr-defined]
    used = {word for word in [*json.loads(in_image), *service["command"]] if word.startswith("--")}

    assert used
    assert used <= known


def test_it_lives_on_a_read_only_file_system(tmp_path: Path) -> None:
    """State and temporary files are all that is written, and their places can be configured."""
    state, temporary = tmp_path / "state", tmp_path / "tmp"
    temporary.mkdir()
    elsewhere = {"HOME": "/nonexistent", "TMPDIR": str(temporary)}
    with Hotseat({"models": {"qwen": stub("qwen")}}, tmp_path, environ=elsewhere) as hotseat:
        answer = hotseat.chat("qwen")
        beside = {path.name for path in temporary.iterdir()}

    assert answer.status == 200
    assert all(name.startswith("hotseat-") for name in beside)
    assert list(temporary.iterdir()) == []
    assert [path.name for path in state.iterdir()] == ["hotseat"]


def test_it_needs_no_init_in_front(tmp_path: Path) -> None:
    """As process 1 it reaps what model servers leave behind, and SIGTERM ends it and them."""
    leaves_an_orphan = {"cmd": f"sh -c '(sleep 0.01 &); exec {stub('qwen')['cmd']}'"}
    program = [*AS_PROCESS_1, str(PROGRAM)]
    with Hotseat({"models": {"qwen": leaves_an_orphan}}, tmp_path, program=program) as hotseat:
        hotseat.load("qwen")
        (first,) = children(hotseat.process.pid)
        rig = eventually(lambda: all_reaped(first))
        os.kill(first, signal.SIGTERM)
        code = hotseat.process.wait(PATIENCE_S)

    assert len(rig) == 3, "hotseat, its guard and the model server"
    assert code == 0


def all_reaped(first: int) -> list[int]:
    """Every process of hotseat; empty while the sleeper is still there, was not reaped or goes just now."""
    with suppress(OSError):
        rig = descendants(first)
        return rig if len(rig) == 3 and all(state_of(pid) != "Z" for pid in rig) else []
    return []


def descendants(pid: int) -> list[int]:
    return [pid, *(each for child in children(pid) for each in descendants(child))]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state_of(pid: int) -> str:
    """R, S, Z and so on, as proc(5) has them."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
