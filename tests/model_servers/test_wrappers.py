"""A server behind a script is asked to end as one without, and has the same time for it."""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import container_engines
from tests.support.processes import all_pids, command_line
from tests.support.supervisor_rig import MISBEHAVING_SERVERS, SupervisorRig, command_for, model
from tests.support.waiting import come_true

from hotseat.model_servers.guard_trees import Tree
from hotseat.model_servers.monitors import MONITOR_S
from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.container_engines import ContainerEngine

pytestmark = pytest.mark.usefixtures("counted_guard")

PYTHON = os.path.realpath(sys.executable)
SERVER = f"{PYTHON} -I -S {MISBEHAVING_SERVERS} ends_gracefully $1 $2"
"""Its arguments are the port and the file in which it says how it ended."""
IN_PYTHON = f"import os, subprocess, sys; words = '{SERVER}'.split()[:-2] + sys.argv[1:]; "
IN_NODE = f"const words = '{SERVER}'.split(' ').slice(1, -2).concat(process.argv.slice(-2)); "
SPAWN = f"require('child_process').spawn('{PYTHON}', words, "
WRAPPERS: dict[str, tuple[str, ...] | str] = {
    "sh": f"#!/bin/sh\n{SERVER}\n",
    "sh with exec": f"#!/bin/sh\nexec {SERVER}\n",
    "bash": f"#!/bin/bash\n{SERVER}\n",
    "bash with exec": f"#!/bin/bash\nexec {SERVER}\n",
    "dash": f"#!/bin/dash\n{SERVER}\n",
    "dash with exec": f"#!/bin/dash\nexec {SERVER}\n",
    "a command line": ("sh", "-c", f"{SERVER}; true", "sh"),
    "a command line of bash": ("bash", "-c", f"{SERVER}; true", "bash"),
    "a background job": f"#!/bin/sh\n{SERVER} &\nwait\n",
    "a session of its own": f"#!/bin/sh\nsetsid {SERVER} &\nwait\n",
    "a session of its own without environment": f"#!/bin/sh\nenv -i setsid {SERVER} &\nwait\n",
    "python": (PYTHON, "-c", f"{IN_PYTHON} subprocess.run(words)"),
    "python with exec": (PYTHON, "-c", f"{IN_PYTHON} os.execv(words[0], words)"),
    "node": ("node", "-e", f"{IN_NODE} {SPAWN} {{stdio: 'inherit'}})", "--"),
    "node with a detached child": ("node", "-e", f"{IN_NODE} {SPAWN} {{stdio: 'inherit', detached: true}})", "--"),
    "podman": "#!/bin/sh\npodman run --rm --name wrapped --network host $PLACES empty $SERVER $1 $2\n",
}
"""A script, or a command line that gets the port and the note as its last two words."""
UNLOAD_TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    """Podman with an image without any file: what runs there is mounted."""
    if os.geteuid():
        pytest.skip("container engines of their own need root")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("lib", "lib64", "bin"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
    with tempfile.TemporaryDirectory() as folder, container_engines.podman(Path(folder)) as podman:
        podman.run("import", "-", "empty", given=packed.getvalue())
        yield podman


@pytest.fixture
def environ(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> dict[str, str]:
    """What the script of a container needs besides."""
    if kind != "podman":
        return {**os.environ}
    places = ("/usr", sys.base_prefix, str(Path(MISBEHAVING_SERVERS).parent))
    mounts = " ".join(f"-v {place}:{place}:ro" for place in places) + f" -v {tmp_path}:{tmp_path}"
    engine: ContainerEngine = request.getfixturevalue("engine")
    server = SERVER.removesuffix(" $1 $2")
    return {**os.environ, **engine.environ, "PLACES": mounts, "SERVER": server}


@pytest.mark.parametrize("kind", WRAPPERS)
async def test_a_server_behind_a_wrapper_ends_gracefully(
    nobody_is_left: None, kind: str, environ: dict[str, str], tmp_path: Path
) -> None:
    """It is asked once and finishes before anything is killed; then nothing is left, and the launch is over."""
    wrapper, note = WRAPPERS[kind], tmp_path / "note"
    if isinstance(wrapper, str):
        script = tmp_path / "run"
        script.write_text(wrapper)
        script.chmod(0o755)
        wrapper = (str(script),)
    async with open_supervisor(environ) as supervisor:
        rig = SupervisorRig(supervisor)
        argv = (*wrapper, "${PORT}", str(note))
        ready = await rig.ready(model("", argv=argv, unload_timeout_s=UNLOAD_TIMEOUT_S))
        began = time.monotonic()
        await rig.end(ready)

        assert note.read_text() == "asked\nended\n"
        assert not processes_with(note)
        assert time.monotonic() - began < UNLOAD_TIMEOUT_S


ORPHANS = {"in the group": "{server} &", "in a session of its own": "setsid {server} &"}


@pytest.fixture
def script(tmp_path: Path, where: str) -> str:
    """It starts the server in the background and waits."""
    path = tmp_path / "run"
    path.write_text(f"#!/bin/sh\n{ORPHANS[where].format(server=SERVER)}\nwait\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("where", ORPHANS)
async def test_a_stop_command_that_ends_the_script_only(rig: SupervisorRig, script: str, tmp_path: Path) -> None:
    """What the script leaves behind is asked to end, since the stop command did not."""
    note = tmp_path / "note"
    stop = command_for("stop_politely", "${PID}", str(tmp_path / "stop"))
    ready = await rig.ready(model("", argv=(script, "${PORT}", str(note)), stop=stop))
    await rig.end(ready)

    assert note.read_text() == "asked\nended\n"


@pytest.mark.parametrize("where", ORPHANS)
async def test_a_script_that_crashes(rig: SupervisorRig, script: str, tmp_path: Path) -> None:
    """Nobody asked it to end: what it leaves behind is killed at once, as its memory is needed."""
    note = tmp_path / "note"
    ready = await rig.ready(model("", argv=(script, "${PORT}", str(note)), unload_timeout_s=UNLOAD_TIMEOUT_S))
    os.kill(ready.upstream.pid or 0, signal.SIGTERM)
    exited = await rig.supervisor.watch(ready)

    assert exited.exit_status.startswith("was terminated by SIGTERM")
    assert not note.exists()
    assert not processes_with(note)


@pytest.mark.parametrize("where", ORPHANS)
async def test_a_server_that_outlives_its_script_and_the_unload_timeout(
    rig: SupervisorRig, where: str, tmp_path: Path
) -> None:
    """It is killed when the time is over, not sooner, and the launch lasts until then."""
    deaf = ORPHANS[where].format(server=" ".join(command_for("ignores_sigterm", "$1", "$2")))
    note = tmp_path / "note"
    argv = ("sh", "-c", f"{deaf} wait", "sh", "${PORT}", str(note))
    ready = await rig.ready(model("", argv=argv, unload_timeout_s=0.5))
    began = time.monotonic()
    how = await rig.end(ready)

    assert how == "was terminated by SIGTERM"
    assert time.monotonic() - began >= 0.5
    assert not processes_with(note)


@pytest.mark.parametrize("where", ["in the group"])
async def test_hotseat_is_killed_while_the_rest_ends(rig: SupervisorRig, script: str, tmp_path: Path) -> None:
    """The guard asks on its own, and gives the rest the second that it gives every server then."""
    note = tmp_path / "note"
    await rig.ready(model("", argv=(script, "${PORT}", str(note)), unload_timeout_s=UNLOAD_TIMEOUT_S))
    link = rig.supervisor.guard._link
    assert link
    link.hang_up()
    await come_true(lambda: not processes_with(note))

    assert note.read_text() == "asked\nended\n"


def test_a_container_whose_time_is_over_is_removed() -> None:
    """Its monitor has five seconds for that from the moment at which the container is killed, however late that is."""
    tree = Tree(1, os.getpid(), {"env": {}, "argv": [], "stop": None, "unload_timeout_s": UNLOAD_TIMEOUT_S})
    tree.begin_stop()
    tree.status, tree.ended_at = 0, time.monotonic() - 100
    tree.signal(signal.SIGKILL)

    assert not tree.may_finish
    assert 0 <= time.monotonic() - tree.monitors_until < MONITOR_S


def processes_with(words: Path) -> list[int]:
    return [pid for pid in all_pids() if str(words) in command_line(pid)]
