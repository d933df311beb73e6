"""A new hotseat process goes on with the servers of another one, and treats them as its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.model_servers.test_sleep_hooks import LEVEL_1, put_to_sleep, vllm, wake_up
from tests.support.fake_launcher import catalog
from tests.support.hanging_disk import hanging
from tests.support.llama import REPOSITORY
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, command_for, grandchild_in, is_alive, model
from tests.support.waiting import PATIENCE_S, come_true, come_true_async

from hotseat.catalog.spec import GpuChoice
from hotseat.identifiers import LOCAL_HOST, Address, DeviceName, LaunchId, ModelName, Place
from hotseat.model_servers import adoption
from hotseat.model_servers.adoption import fingerprint_of, read_description
from hotseat.model_servers.conversations.transfers import OTHERS_FOLDER
from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.guard_end import GUARDS
from hotseat.model_servers.guard_grace import connect
from hotseat.model_servers.orphans import leftovers
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.ports import listener_of
from hotseat.model_servers.supervisor import open_supervisor
from hotseat.scheduling.commands import Allowance, SaveConversations
from hotseat.scheduling.events import UpstreamAwake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hotseat.catalog.spec import ModelSpec
    from hotseat.model_servers.adoption import ServerDescription
    from hotseat.model_servers.supervisor import Supervisor
    from hotseat.scheduling.events import UpstreamReady

pytestmark = pytest.mark.usefixtures("counted_guard")

NINE = LaunchId(9)
CARDS = tuple(Place(LOCAL_HOST, DeviceName(name)) for name in ("gpu0", "gpu1"))
SHELL = shutil.which("sh") or ""


@pytest.fixture
async def former(nobody_is_left: None) -> AsyncIterator[SupervisorRig]:
    """A hotseat process that will hand over; its guard is our child, whoever has it at the end."""
    before = {*GUARDS}
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER) as supervisor:
        yield SupervisorRig(supervisor)
    for pid in {*GUARDS} - before:
        await asyncio.to_thread(GUARDS.pop(pid).wait)


@asynccontextmanager
async def successor_of(former: SupervisorRig, outputs: Outputs | None = None) -> AsyncIterator[Supervisor]:
    connection = former.supervisor.guard.offer()
    opening = open_supervisor(os.environ, outputs=outputs, interpreter=GUARD_INTERPRETER, starts_guard=False)
    async with opening as supervisor:
        await supervisor.take(connection)
        await former.supervisor.guard.taken
        yield supervisor


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hotseat-"))
    yield folder
    shutil.rmtree(folder)


async def test_an_adopted_server_is_like_any_other(former: SupervisorRig) -> None:
    """It has the same process and address, it can be stopped, and its end is reported."""
    spec = model("tells_of_sigterm")
    before = await former.ready(spec)
    async with successor_of(former) as supervisor:
        rig = SupervisorRig(supervisor)
        (description,) = await supervisor.taken()
        adopted = supervisor.adopt(NINE, description, spec)
        await supervisor.end_unadopted()
        pids = supervisor.pids()
        how = await rig.end(adopted)
        said = rig.tail()

    assert (adopted.upstream, adopted.launch) == (before.upstream, NINE)
    assert pids == {ModelName("qwen"): before.upstream.pid}
    assert (how, said) == ("exited with code 0", ["asked to end"])
    assert description.fingerprint == fingerprint_of(spec)
    assert (description.model, description.launch, description.sleep) == ("qwen", before.launch, None)


async def test_a_server_is_adopted_whose_disk_does_not_respond(former: SupervisorRig, folder: Path) -> None:
    """It has read its files, and requests of all models would wait for the disk."""
    spec = model("", argv=("sh", "-c", 'exec "$@"', str(folder / "m.gguf"), *command_for("healthy", "${PORT}")))
    await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        with hanging(folder):
            adopted = supervisor.adopt(NINE, description, spec)

    assert adopted.launch == NINE


async def test_an_adopted_server_behind_a_script_is_shown_as_before(former: SupervisorRig) -> None:
    """The process that listens is handed over with the rest."""
    spec = model("listens_in_a_child")
    before = await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        adopted = supervisor.adopt(NINE, description, spec)

    assert before.upstream.listener != before.upstream.pid
    assert adopted.upstream == before.upstream


async def test_an_adopted_server_that_crashes_is_reported(former: SupervisorRig) -> None:
    """With its last words, also those from before the adoption."""
    spec = model("dies_mid_stream")
    ready = await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        adopted = supervisor.adopt(NINE, description, spec)
        _, writer = await asyncio.open_connection("127.0.0.1", ready.upstream.address.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        exited = await supervisor.watch(adopted)
        writer.close()

    assert (exited.launch, exited.exit_status) == (NINE, "exited with code 1")
    assert exited.output == ("thread panicked",)


async def test_the_end_of_the_former_supervisor_ends_nothing(former: SupervisorRig) -> None:
    """It returns at once, though its servers run on."""
    ready = await former.ready(model("healthy"))
    async with successor_of(former):
        await former.supervisor.guard.aclose()
        is_there = is_alive(ready.upstream.pid or 0)

    assert is_there
    assert not is_alive(ready.upstream.pid or 0)


async def test_the_stop_command_of_an_adopted_server_is_run(former: SupervisorRig, tmp_path: Path) -> None:
    """With its port and its pid."""
    note = tmp_path / "note"
    stop = (SHELL, "-c", f"echo ${{PORT}} > {note}; kill -9 ${{PID}}")
    spec = model("ignores_sigterm", stop=stop)
    ready = await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        how = await SupervisorRig(supervisor).end(supervisor.adopt(NINE, description, spec))

    assert how == "was terminated by SIGKILL"
    assert note.read_text() == f"{ready.upstream.address.port}\n"


async def test_the_port_of_an_adopted_server_is_not_leased(former: SupervisorRig) -> None:
    """Until the server is gone."""
    spec = model("healthy")
    ready = await former.ready(spec)
    port = ready.upstream.address.port
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        adopted = supervisor.adopt(NINE, description, spec)
        leased_meanwhile = port in supervisor._ports._leased
        await SupervisorRig(supervisor).end(adopted)

    assert leased_meanwhile
    assert port not in supervisor._ports._leased


async def test_a_server_that_is_loading_is_not_adopted(former: SupervisorRig) -> None:
    """Nobody knows whether it will be ready: it is ended, and the ready one stays."""
    ready = await former.ready(model("healthy"))
    loading = asyncio.get_running_loop().create_task(former.supervisor.start(former.next_start(model("never_ready"))))
    await former.said("loading tensors")
    (pid,) = {*former.supervisor.pids().values()} - {ready.upstream.pid}
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        supervisor.adopt(NINE, description, model("healthy"))
        await supervisor.end_unadopted()
        are_there = is_alive(ready.upstream.pid or 0), is_alive(pid)
    loading.cancel()

    assert are_there == (True, False)
    assert description.pid == ready.upstream.pid


async def test_a_server_is_started_when_those_that_nobody_adopted_are_gone(former: SupervisorRig) -> None:
    """They use the memory that it needs, until they have ended."""
    left = await former.ready(model("ignores_sigterm"))
    async with successor_of(former) as supervisor:
        ending = supervisor.end_unadopted()
        await SupervisorRig(supervisor).ready(model("healthy"))
        is_there = is_alive(left.upstream.pid or 0)
        await ending

    assert not is_there


async def test_a_server_that_is_being_stopped_is_not_adopted(former: SupervisorRig) -> None:
    """The new owner ends it again."""
    ready = await former.ready(model("ignores_sigterm", unload_timeout_s=0.3))
    stopping = asyncio.get_running_loop().create_task(former.stop(ready))
    await asyncio.sleep(0)
    async with successor_of(former) as supervisor:
        usable = await supervisor.taken()
        await supervisor.end_unadopted()
        is_there = is_alive(ready.upstream.pid or 0)
    stopping.cancel()

    assert usable == []
    assert not is_there


async def test_the_guard_ends_a_server_by_the_newest_unload_timeout(former: SupervisorRig) -> None:
    """A reload has changed it since the start; whoever takes the server over without adopting it knows no other."""
    spec = model("ignores_sigterm", unload_timeout_s=600.0)
    ready = await former.ready(spec)
    former.supervisor.limit_stops(catalog(replace(spec, unload_timeout_s=0.3)))
    async with successor_of(former) as supervisor:
        async with asyncio.timeout(PATIENCE_S):
            await supervisor.end_unadopted()

    assert not is_alive(ready.upstream.pid or 0)


async def test_what_was_claimed_cannot_be_adopted_twice(former: SupervisorRig) -> None:
    spec = model("healthy")
    await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        supervisor.adopt(NINE, description, spec)
        with pytest.raises(LookupError, match="no server of qwen was handed over"):
            supervisor.adopt(LaunchId(10), description, spec)


async def test_a_server_is_adopted_asleep(former: SupervisorRig) -> None:
    """The successor knows its sleep level and wakes it."""
    ready = await former.ready(vllm())
    await former.supervisor.put_to_sleep(put_to_sleep(ready))
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        adopted = supervisor.adopt(NINE, description, vllm())
        woken = await supervisor.wake_up(wake_up(adopted))
        said = supervisor._running[NINE].description
        await SupervisorRig(supervisor).end(adopted)

    assert description.sleep == LEVEL_1.name
    assert woken == UpstreamAwake(adopted.model, NINE)
    assert said
    assert said.sleep is None


async def test_a_server_between_ready_and_asleep_is_not_adopted(former: SupervisorRig) -> None:
    """Nobody knows what state it will be in."""
    ready = await former.ready(model("healthy"))
    former.supervisor._running[ready.launch].hide()
    async with successor_of(former) as supervisor:
        usable = await supervisor.taken()

    assert usable == []


async def test_a_server_that_reports_its_slots_while_it_falls_asleep_is_not_adopted(former: SupervisorRig) -> None:
    """It is still between ready and asleep; what it reported is said when it sleeps."""
    ready = await former.ready(model("tells_its_slots"))
    server = former.supervisor._running[ready.launch]
    server.hide()
    await former.supervisor.ask_slots(ready)
    async with successor_of(former) as supervisor:
        usable = await supervisor.taken()

    assert usable == []
    assert server.description
    assert server.description.slots == 3


async def test_what_a_server_reported_is_handed_over(former: SupervisorRig) -> None:
    """Its slots, its context and its Server header: the successor need not ask again."""
    spec = model("tells_its_slots")
    await former.supervisor.ask_slots(await former.ready(spec))
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        supervisor.adopt(NINE, description, spec)
        context = supervisor.context(spec.name)

    assert (description.slots, description.context, description.server) == (3, 4096, "llama.cpp")
    assert context == 4096


async def test_an_adopted_server_can_be_handed_over_again(former: SupervisorRig) -> None:
    """It is described anew, with the number of its launch in the process that has it."""
    spec = model("healthy")
    ready = await former.ready(spec)
    async with successor_of(former) as second:
        (description,) = await second.taken()
        second.adopt(NINE, description, spec)
        async with successor_of(SupervisorRig(second)) as third:
            (description,) = await third.taken()
            adopted = third.adopt(LaunchId(3), description, spec)

    assert description.launch == NINE
    assert adopted.upstream == ready.upstream


async def test_a_secret_is_concealed_in_what_was_written_before_the_adoption(former: SupervisorRig) -> None:
    """The copy on our own output begins when it is known what to hide."""
    copied: list[bytes] = []
    spec = model("tells_of_sigterm", secrets=("asked",))
    await former.ready(spec)
    async with successor_of(former, Outputs(lambda _, data: copied.append(data))) as supervisor:
        (description,) = await supervisor.taken()
        os.kill(description.pid, signal.SIGTERM)
        await come_true(lambda: supervisor._taken._left[0].output._kept)
        supervisor.adopt(NINE, description, spec)
        await come_true(lambda: copied)

    assert b"".join(copied) == b"*** to end\n"


async def test_conversations_of_a_server_whose_folder_is_unknown_are_not_saved(former: SupervisorRig) -> None:
    """Its former process named no folder; the reason is reported."""
    spec = model("healthy")
    await former.ready(spec)
    async with successor_of(former) as supervisor:
        (description,) = await supervisor.taken()
        supervisor.adopt(NINE, description, spec)
        allowance = Allowance(within_s=1.0, least_tokens=1, token_s=0.0)
        saved = await supervisor.save_conversations(SaveConversations(spec.name, NINE, allowance, "the test says so"))

    assert saved
    assert saved.problem == OTHERS_FOLDER


async def test_who_listens_is_looked_up_in_a_thread(former: SupervisorRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a host may take long to resolve, and there may be many processes."""
    looked_up_by = list[threading.Thread]()

    def noted(address: Address, leader: int, marker: str) -> tuple[int | None, bool]:
        looked_up_by.append(threading.current_thread())
        return listener_of(address, leader, marker)

    monkeypatch.setattr(adoption, "listener_of", noted)
    await former.ready(model("healthy"))
    async with successor_of(former) as supervisor:
        usable = await supervisor.taken()

    assert len(usable) == len(looked_up_by) == 1
    assert looked_up_by[0] is not threading.main_thread()


async def test_a_server_whose_port_is_anothers_is_not_adopted(former: SupervisorRig) -> None:
    """Whatever was said about it, requests go to no other process."""
    ready = await former.ready(model("healthy"))
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    server = former.supervisor._running[ready.launch]
    assert server.description
    address = Address("127.0.0.1", other.sockets[0].getsockname()[1])
    server.describe(replace(server.description, address=address))
    async with successor_of(former) as supervisor:
        usable = await supervisor.taken()
    other.close()

    assert usable == []


# After a crash


@pytest.fixture
def killed(folder: Path, nobody_is_left: None) -> Iterator[list[str]]:
    """The output of two servers of a hotseat that was killed; what it left is collected at the end."""
    servers = json.dumps([{"server": ["healthy"]}, {"server": ["leaks_grandchildren", "setsid"]}])
    command = [sys.executable, "-m", "tests.support.small_hotseat", servers, str(folder), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        process.kill()
    yield said
    while collected():
        pass


def collected() -> bool:
    try:
        return os.waitpid(-1, 0)[0] > 0
    except ChildProcessError:
        return False


@asynccontextmanager
async def after_crash(folder: Path) -> AsyncIterator[Supervisor]:
    connection = await come_true(lambda: connect(folder / "guard"))
    opening = open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=folder, starts_guard=False)
    async with opening as supervisor:
        await supervisor.take(connection)
        yield supervisor


async def test_the_servers_of_a_killed_hotseat_are_adopted(folder: Path, killed: list[str]) -> None:
    """They have never stopped, and neither has what they had started."""
    grandchild = grandchild_in(killed)
    async with after_crash(folder) as supervisor:
        described = await supervisor.taken()
        adopted = [supervisor.adopt(LaunchId(n), each, spec_of(each)) for n, each in enumerate(described)]
        await supervisor.end_unadopted()
        are_there = [start_of(pid) is not None for pid in (*pids_of(adopted), grandchild)]

    assert are_there == [True, True, True]
    assert [start_of(pid) for pid in (*pids_of(adopted), grandchild)] == [None, None, None]


def spec_of(description: ServerDescription) -> ModelSpec:
    specs = [model("healthy"), model("leaks_grandchildren", "setsid")]
    (spec,) = [spec for spec in specs if fingerprint_of(spec) == description.fingerprint]
    return spec


def pids_of(adopted: list[UpstreamReady]) -> list[int]:
    return [each.upstream.pid or 0 for each in adopted]


async def test_after_a_crash_a_server_must_answer(
    folder: Path, killed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has watched it since; one that does not is ended."""
    monkeypatch.setattr(adoption, "HEALTH_S", PATIENCE_S)
    async with after_crash(folder) as supervisor:
        first, second = await supervisor.taken()
        os.kill(first.pid, signal.SIGSTOP)
        monkeypatch.setattr(adoption, "HEALTH_S", 0.5)
        usable = await come_true_async(supervisor.taken)  # the other one may be too late, too
        supervisor.adopt(NINE, second, spec_of(second))
        await supervisor.end_unadopted()
        are_there = start_of(first.pid) is not None, start_of(second.pid) is not None

    assert usable == [second]
    assert are_there == (False, True)


async def test_a_start_leaves_alone_what_an_orphaned_guard_keeps(folder: Path, killed: list[str]) -> None:
    """It has a guard, though that has no hotseat."""
    grandchild = grandchild_in(killed)
    ended = leftovers(str(folder))
    is_there = start_of(grandchild) is not None
    async with after_crash(folder):
        pass

    assert ended == []
    assert is_there


# What is said


def test_equal_settings_have_equal_fingerprints_in_every_process() -> None:
    program = "from tests.support.supervisor_rig import *; from hotseat.model_servers.adoption import *; "
    program += "print(fingerprint_of(model('healthy', env=(('A', '1'),))))"
    other = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert other.stdout.strip() == fingerprint_of(model("healthy", env=(("A", "1"),), title="Any"))


CHANGES: list[dict[str, Any]] = [
    {"argv": ("other",)},
    {"proxy": "http://localhost:1"},
    {"env": (("A", "2"),)},
    {"check_endpoint": None},
    {"stop": ("true",)},
    {"gpus": GpuChoice(1, CARDS)},
    {"gpus": GpuChoice(2, CARDS)},
]


def test_each_setting_of_a_running_server_changes_the_fingerprint() -> None:
    prints = {fingerprint_of(model("healthy", **change)) for change in ({}, *CHANGES)}

    assert len(prints) == len(CHANGES) + 1


async def test_a_description_contains_no_secret(former: SupervisorRig) -> None:
    """But a key that hotseat made, without which the server is of no use; it survives the journey."""
    ready = await former.ready(model("healthy", env=(("KEY", "top-secret"),)))
    described = former.supervisor._running[ready.launch].description
    assert described
    gpus = replace(described, gpus=CARDS, api_key="made")
    text = json.dumps(gpus.as_json())

    assert "top-secret" not in text
    assert read_description(json.loads(text), described.pid) == gpus
    assert "made" not in repr(gpus)
    assert (gpus.as_json()["version"], described.as_json()["version"]) == (2, 1)  # version 1 knows no keys


@pytest.mark.parametrize("said", [None, {}, [], "ready", {"version": 2}, {"version": 1, "model": "qwen"}])
def test_a_description_that_is_not_understood_is_none(said: object) -> None:
    """Of another version, or of a process that was not ready."""
    assert read_description(said, 1) is None
