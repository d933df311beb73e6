"""hotseat is restarted after an upgrade or a downgrade: two versions share the model servers and their guard."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support import streaming_server
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.source_trees import PRESENT, PREVIOUS, PROGRAM, Installation, edit

from hotseat.model_servers.os_processes import GUARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


@pytest.fixture
def start(tmp_path: Path, installation: Installation) -> Iterator[Callable[[], Hotseat]]:
    """The installed program; later ones with the same command may have other sources."""
    with ExitStack() as stack:

        def start() -> Hotseat:
            command = [sys.executable, streaming_server.__file__, "${PORT}", str(tmp_path / "enough")]
            models = {"alpha": {"cmd": " ".join(command)}, "beta": llama("beta")}
            hotseat = Hotseat({"models": models}, tmp_path, program=PROGRAM, environ=installation.environ)
            stack.callback(lambda: print(hotseat.log()))
            return stack.enter_context(hotseat)

        yield start


def version(hotseat: Hotseat) -> str:
    """Of the process that serves now."""
    return str(hotseat.call("GET", "/hotseat/openapi.json").json()["info"]["version"])


def assert_takes_over(hotseat: Hotseat) -> None:
    """A restart cuts no stream and stops no server; afterwards the guard of the old process obeys the new one."""
    server, guards = hotseat.load("alpha"), hotseat.processes(GUARD)
    stream = hotseat.stream("alpha", max_tokens=200).until_it_speaks()
    restarted = hotseat.cli("restart")
    leases = hotseat.call("GET", "/hotseat/models/alpha").json()["in_flight"]
    (hotseat.config.parent / "enough").touch()

    assert stream.read().done
    assert (restarted.returncode, leases) == (0, 1), restarted.stderr
    assert hotseat.chat("alpha").status == 200
    assert hotseat.health()["alpha"]["pid"] == server
    hotseat.load("beta")
    assert hotseat.health().keys() == {"beta"}
    assert hotseat.call("POST", "/api/models/unload").status == 200
    assert hotseat.upstreams() == []
    assert hotseat.processes(GUARD) == guards


def test_an_upgrade(installation: Installation, start: Callable[[], Hotseat]) -> None:
    """The program of the previous commit is replaced by this one."""
    installation.install(installation.previous())
    hotseat = start()
    assert version(hotseat) == PREVIOUS
    installation.install(installation.present())

    assert_takes_over(hotseat)
    assert version(hotseat) == PRESENT


def test_a_downgrade(installation: Installation, start: Callable[[], Hotseat]) -> None:
    """This program is replaced by that of the previous commit."""
    installation.install(installation.present())
    hotseat = start()
    assert version(hotseat) == PRESENT
    installation.install(installation.previous())

    assert_takes_over(hotseat)
    assert version(hotseat) == PREVIOUS


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("handover/predecessor.py", "the running hotseat hands over in format 1, and this one reads format 2"),
        ("scheduling/handover.py", "the handover has version 1, and this hotseat reads 2"),
        ("model_servers/guard_messages.py", "this guard knows version 1 of the protocol, not 2"),
    ],
)
def test_a_version_that_cannot_take_over(
    installation: Installation, start: Callable[[], Hotseat], file: str, reason: str
) -> None:
    """The old process continues with its servers, and the reason names both versions."""
    present = installation.present()
    installation.install(present)
    hotseat = start()
    (hotseat.config.parent / "enough").touch()
    server = hotseat.load("alpha")
    edit(present / "hotseat" / file, "\nVERSION = 1\n", "\nVERSION = 2\n")
    restarted = hotseat.cli("restart")

    assert restarted.returncode == 1
    assert f"process {hotseat.process.pid} continues: " in restarted.stderr
    assert reason in restarted.stderr
    assert hotseat.chat("alpha").status == 200
    assert hotseat.health()["alpha"]["pid"] == server
    hotseat.load("beta")
