"""hotseat is replaced by a new process while models run and clients wait: nobody notices."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import short_limits, streaming_server
from tests.support.changed_program import changed_program
from tests.support.client import PATIENCE_S, chat_body, send
from tests.support.fleet_journey import CONNECT_S, nats_cluster, record_of
from tests.support.hotseat import Hotseat
from tests.support.llama import llama
from tests.support.processes import command_line
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.nats import NatsServer

TWO_FIT: dict[str, Any] = {"devices": {"gpu0": {"memory": "8GiB"}}}
FOUR_GIB = {"memory": "4GiB"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Hotseat]]:
    """The installed program: a fork of the tests cannot start itself again."""
    with ExitStack() as stack:

        def start(models: Mapping[str, Any], **settings: object) -> Hotseat:
            hotseat = Hotseat({**settings, "models": models}, tmp_path)
            stack.callback(lambda: print(hotseat.log()))
            return stack.enter_context(hotseat)

        yield start


def serving(hotseat: Hotseat) -> int:
    """The process that answers new connections."""
    return int(hotseat.call("GET", "/hotseat/restart").json()["pid"])


def test_a_restart_while_a_model_streams(start: Callable[..., Hotseat]) -> None:
    """The stream goes on to its end, the server is the same, and the next answer comes from the new process."""
    hotseat = start({"alpha": llama("alpha")})
    server = hotseat.load("alpha")
    stream = hotseat.stream("alpha", max_tokens=200).until_it_speaks()
    restarted = hotseat.cli("restart")

    assert restarted.returncode == 0, restarted.stderr
    assert "running models: 1" in restarted.stdout
    assert serving(hotseat) != hotseat.process.pid
    assert hotseat.chat("alpha").status == 200
    assert hotseat.health()["alpha"]["pid"] == server
    assert stream.read().done
    assert "adopted" in hotseat.cli("ps").stdout


def test_requests_that_wait_for_a_model_are_answered(start: Callable[..., Hotseat], tmp_path: Path) -> None:
    """They keep their places; the new process loads the model that they wait for."""
    enough = tmp_path / "enough"
    endless = {"cmd": f"{sys.executable} {streaming_server.__file__} ${{PORT}} {enough}"}
    hotseat = start({"alpha": endless, "beta": llama("beta")})
    stream = hotseat.stream("alpha", max_tokens=300).until_it_speaks()
    with ThreadPoolExecutor(4) as clients:
        waiting = [clients.submit(hotseat.chat, "beta") for _ in range(4)]
        eventually(lambda: len(hotseat.call("GET", "/hotseat/queue").json()["waiting"]) == 4)
        restarted = hotseat.cli("restart")
        enough.touch()

        assert restarted.returncode == 0, restarted.stderr
        assert stream.read().done
        assert [each.result().status for each in waiting] == [200] * 4


def test_a_client_that_keeps_its_connection(start: Callable[..., Hotseat]) -> None:
    """Its next request on the old connection is answered, with the advice to open a new one."""
    hotseat = start({"alpha": llama("alpha")})
    connection = http.client.HTTPConnection("127.0.0.1", hotseat.port, timeout=PATIENCE_S)
    first = send(connection, "POST", "/v1/chat/completions", chat_body("alpha", 2), {})
    first.read()
    hotseat.cli("restart")
    second = send(connection, "POST", "/v1/chat/completions", chat_body("alpha", 2), {})

    assert (second.status, second.getheader("connection")) == (200, "close")
    second.read()
    connection.close()


def test_a_broken_configuration(start: Callable[..., Hotseat]) -> None:
    """The restart fails with the reason, and the old process goes on, also with its models."""
    hotseat = start({"alpha": llama("alpha")})
    server = hotseat.load("alpha")
    hotseat.config.write_text("modles: {}\n")
    restarted = hotseat.cli("restart")

    assert restarted.returncode == 1
    assert "modles: unknown key" in restarted.stderr
    assert serving(hotseat) == hotseat.process.pid
    assert hotseat.chat("alpha").status == 200
    assert hotseat.health()["alpha"]["pid"] == server


def test_a_changed_model(start: Callable[..., Hotseat]) -> None:
    """Its server is stopped as after a reload, and the others keep theirs."""
    models = {"alpha": {**llama("alpha"), **FOUR_GIB}, "beta": {**llama("beta"), **FOUR_GIB}}
    hotseat = start(models, **TWO_FIT)
    kept, changed = hotseat.load("alpha"), hotseat.load("beta")
    hotseat.write({**TWO_FIT, "models": {**models, "beta": {**llama("beta", "-c 4096"), **FOUR_GIB}}})
    hotseat.cli("restart")

    eventually(lambda: hotseat.health().keys() == {"alpha"})
    assert hotseat.health()["alpha"]["pid"] == kept
    assert hotseat.load("beta") != changed


@pytest.mark.parametrize("by_signal", [True, False])
def test_a_reload_during_a_restart(start: Callable[..., Hotseat], tmp_path: Path, by_signal: bool) -> None:
    """The new process had read the configuration before: it reads it again when it has taken over."""
    go = tmp_path / "go"
    slow = {"cmd": f"sh -c 'until [ -e {go} ]; do sleep 0.05; done; exec {llama('alpha')['cmd']}'"}
    models = {"alpha": slow, "beta": llama("beta")}
    hotseat = start(models)
    with ThreadPoolExecutor(3) as clients:
        loading = clients.submit(hotseat.load, "alpha")
        eventually(lambda: hotseat.processes("until "))
        restarted = clients.submit(hotseat.cli, "restart")
        waiting = clients.submit(hotseat.chat, "beta")
        eventually(lambda: b"hotseat is restarting" in hotseat.call("GET", "/hotseat/queue").body)
        hotseat.write({"models": {**models, "gamma": llama("alpha")}})
        reload(hotseat, by_signal)
        go.touch()
        loading.result()

        assert restarted.result().returncode == 0
        assert waiting.result().status == 200
    eventually(lambda: "gamma" in names(hotseat))
    assert serving(hotseat) != hotseat.process.pid


def reload(hotseat: Hotseat, by_signal: bool) -> None:
    """Return when the process that serves now has done it."""
    if by_signal:
        hotseat.process.send_signal(signal.SIGHUP)
        eventually(lambda: "configuration reloaded" in hotseat.log())
    else:
        assert hotseat.call("POST", "/hotseat/reload").status == 200


def names(hotseat: Hotseat) -> list[str]:
    return [each["id"] for each in hotseat.call("GET", "/v1/models").json()["data"]]


def test_a_server_that_answers_nothing_else_while_it_streams(tmp_path: Path) -> None:
    """The new process learns from the old one that bytes arrive, and does not take the server for unresponsive."""
    enough = tmp_path / "enough"
    models = {"qwen": {"cmd": f"{sys.executable} {streaming_server.__file__} ${{PORT}} {enough} alone"}}
    with Hotseat({"models": models}, tmp_path, program=changed_program(tmp_path, short_limits)) as hotseat:
        server = hotseat.load("qwen")
        stream = hotseat.stream("qwen", max_tokens=40).until_it_speaks()
        restarted = hotseat.cli("restart")
        said = len(stream.words)
        while len(stream.words) < said + 3 * short_limits.LIMIT_S / streaming_server.EVERY_S and next(iter(stream), ""):
            pass
        enough.touch()

        assert stream.read().done
        assert restarted.returncode == 0, restarted.stderr
        assert hotseat.health()["qwen"]["pid"] == server
        assert serving(hotseat) != hotseat.process.pid


def test_the_first_process_stands_for_all(start: Callable[..., Hotseat]) -> None:
    """After two restarts, SIGTERM to the pid that was started ends everything, with its exit code."""
    hotseat = start({"alpha": llama("alpha")})
    hotseat.load("alpha")
    for _ in range(2):
        assert hotseat.cli("restart").returncode == 0
    eventually(lambda: "stand_in" in command_line(hotseat.process.pid))
    eventually(lambda: len(hotseat.processes(" serve ")) == 1)

    assert hotseat.terminate() == 0
    assert hotseat.processes() == []


@pytest.mark.parametrize("restarts", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_the_first_process_is_killed(start: Callable[..., Hotseat], restarts: int) -> None:
    """Whoever started hotseat takes it for ended, so it ends: nothing holds the port or a model's memory."""
    hotseat = start({"alpha": llama("alpha")}, shutdown={"notice": "0s"}, crashGrace="60s")
    hotseat.load("alpha")
    for _ in range(restarts):
        assert hotseat.cli("restart").returncode == 0
    eventually(lambda: "stand_in" in command_line(hotseat.process.pid))
    hotseat.process.kill()
    hotseat.process.wait()

    eventually(lambda: hotseat.processes() == [])
    assert "the process that whoever started hotseat knows has ended" in hotseat.log()


def test_the_first_process_is_killed_before_its_last_client_has_left(start: Callable[..., Hotseat]) -> None:
    """It still serves them itself, but whoever started it sees the same."""
    hotseat = start({"alpha": llama("alpha")}, shutdown={"notice": "0s"})
    stream = hotseat.stream("alpha", max_tokens=4000).until_it_speaks()
    hotseat.cli("restart")
    hotseat.process.kill()
    hotseat.process.wait()
    stream.read()

    assert not stream.done
    eventually(lambda: hotseat.processes() == [])


def test_the_new_process_is_killed(start: Callable[..., Hotseat]) -> None:
    """Nothing of it survives, and the first process ends with it."""
    hotseat = start({"alpha": llama("alpha")})
    hotseat.load("alpha")
    hotseat.cli("restart")
    os.kill(serving(hotseat), signal.SIGKILL)

    assert hotseat.process.wait(PATIENCE_S) == 128 + signal.SIGKILL
    eventually(lambda: hotseat.processes() == [])


def test_a_feed_of_events_ends_cleanly(start: Callable[..., Hotseat]) -> None:
    """Its client connects again and misses nothing: the numbers go on."""
    hotseat = start({"alpha": llama("alpha")})
    hotseat.load("alpha")
    connection = http.client.HTTPConnection("127.0.0.1", hotseat.port, timeout=PATIENCE_S)
    feed = send(connection, "GET", "/hotseat/events?after=0", None, {})
    hotseat.cli("restart")
    before = numbers(feed.read())
    connection.close()
    after = numbers(hotseat.call("GET", "/hotseat/models/alpha").body)

    assert before == list(range(1, len(before) + 1))
    assert min(after) > max(before)


def numbers(text: bytes) -> list[int]:
    if text.startswith(b"{"):
        return [entry["n"] for entry in json.loads(text)["history"]]
    return [int(line.removeprefix(b"id: ")) for line in text.splitlines() if line.startswith(b"id: ")]


def test_without_keys_only_the_command_may_restart(start: Callable[..., Hotseat]) -> None:
    """Any program on the machine, such as a web page, can send a request; a signal only the same user."""
    hotseat = start({"alpha": llama("alpha")})

    assert hotseat.call("POST", "/hotseat/restart").status == 403
    assert serving(hotseat) == hotseat.process.pid


def test_an_administrator_restarts_with_a_key(start: Callable[..., Hotseat]) -> None:
    """From any machine; other roles may not."""
    keys = [{"key": "sk-admin", "role": "admin"}, {"key": "sk-operator", "role": "operate"}]
    hotseat = start({"alpha": llama("alpha")}, apiKeys=keys)
    operator = {"Authorization": "Bearer sk-operator"}
    refused = hotseat.call("POST", "/hotseat/restart", **operator)
    restarted = hotseat.cli("restart", HOTSEAT_API_KEY="sk-admin")

    assert refused.status == 403
    assert restarted.returncode == 0, restarted.stderr


@pytest.mark.timeout(180)
def test_a_host_of_a_fleet_restarts(tmp_path: Path) -> None:
    """The other host sees its model all the time: it sends it every request, and loads the model nowhere else."""
    with ExitStack() as stack:
        nats = stack.enter_context(nats_cluster(tmp_path / "nats", 1))
        fleet = {"nats": [server.url for server in nats], "secret": "hush"}
        hosts = {}
        for name in ("gpu1", "gpu2"):
            (tmp_path / name).mkdir()
            config = {"models": {"alpha": llama("alpha")}, "fleet": {**fleet, "name": name}}
            hosts[name] = stack.enter_context(Hotseat(config, tmp_path / name))
        server = hosts["gpu1"].load("alpha")
        eventually(lambda: residents(hosts["gpu2"]) == {"gpu1": ["alpha"], "gpu2": []}, within=CONNECT_S)
        with ThreadPoolExecutor(1) as operator:
            restarted = operator.submit(hosts["gpu1"].cli, "restart")
            answers = [hosts["gpu2"].chat("alpha").status]
            while not restarted.done():
                answers.append(hosts["gpu2"].chat("alpha").status)

        assert restarted.result().returncode == 0, restarted.result().stderr
        assert set(answers) == {200}
        assert "chose host=" not in hosts["gpu2"].log()
        assert residents(hosts["gpu2"]) == {"gpu1": ["alpha"], "gpu2": []}
        assert hosts["gpu1"].health()["alpha"]["pid"] == server


@pytest.mark.timeout(180)
def test_a_host_of_a_fleet_restarts_without_a_state_directory(tmp_path: Path) -> None:
    """The new process has the token of the old one, so it gets the name at once instead of when the lease ends."""
    (tmp_path / "state").write_text("a file where the directory would be")
    with nats_cluster(tmp_path / "nats", 1) as (nats,):
        fleet = {"nats": nats.url, "secret": "hush", "name": "gpu1"}
        with Hotseat({"models": {"alpha": llama("alpha")}, "fleet": fleet}, tmp_path) as hotseat:
            before = eventually(lambda: record_of("gpu1", nats))
            restarted = hotseat.cli("restart")
            after = eventually(lambda: record_of_next("gpu1", before["boot"], nats))

    assert restarted.returncode == 0, restarted.stderr
    assert after["token_hash"] == before["token_hash"]


def record_of_next(host: str, boot: str, nats: NatsServer) -> Any:
    """What another process of the host has published than that of `boot`; None: nothing yet."""
    found = record_of(host, nats)
    return found if found and found["boot"] != boot else None


def residents(hotseat: Hotseat) -> dict[str, list[str]]:
    """The models on each host, as one of them sees it."""
    status = json.loads(hotseat.cli("fleet", "status", "--json").stdout)
    return {host["host"]: [each["model"] for each in host["residents"]] for host in status["hosts"]}


# What operators have set: each fact that reaches the new process can be ended there


def test_a_yield_is_ended_after_two_restarts(start: Callable[..., Hotseat]) -> None:
    """Until then models stay unloaded; afterwards they load."""
    hotseat = start({"alpha": llama("alpha")})
    hotseat.load("alpha")
    assert hotseat.call("POST", "/hotseat/yield").status == 200
    eventually(lambda: not hotseat.health())
    for _ in range(2):
        assert hotseat.cli("restart").returncode == 0
        assert hotseat.chat("alpha").status == 503
    ended = hotseat.call("DELETE", "/hotseat/yield")

    assert ended.json()["message"] == "models may load again"
    assert hotseat.chat("alpha").status == 200


def test_a_program_with_precedence_ends_after_a_restart(start: Callable[..., Hotseat], tmp_path: Path) -> None:
    """The new process has the yield from the old one, looks for the program itself and ends the yield."""
    game = tmp_path / f"game-{os.getpid()}"
    shutil.copy("/bin/sleep", game)
    hotseat = start({"alpha": llama("alpha")}, yieldTo=[game.name])
    with subprocess.Popen([game, "60"]) as program:
        eventually(lambda: "is running" in yielding(hotseat))
        assert hotseat.cli("restart").returncode == 0
        assert hotseat.chat("alpha").status == 503
        assert "still yielded" in hotseat.call("DELETE", "/hotseat/yield").json()["message"]
        program.kill()
    eventually(lambda: not yielding(hotseat))

    assert hotseat.chat("alpha").status == 200


def yielding(hotseat: Hotseat) -> str:
    """Why no model may run; empty: models may."""
    return str(hotseat.call("GET", "/hotseat/models").json()["yielding"])


def test_what_operators_change_while_a_restart_waits_for_a_load(start: Callable[..., Hotseat], tmp_path: Path) -> None:
    """Each change counts, in the order in which they were made, and each can be taken back in the new process."""
    go = tmp_path / "go"
    slow = {"cmd": f"sh -c 'until [ -e {go} ]; do sleep 0.05; done; exec {llama('alpha')['cmd']}'"}
    profiles = {"day": {"pins": {"gpt": "alpha"}}, "night": {"pins": {"gpt": "beta"}}}
    models = {"alpha": llama("alpha"), "beta": {**llama("beta"), "ttl": 900}, "gamma": slow}
    hotseat = start(models, profiles=profiles)
    assert override(hotseat, "gamma", ttl=60) == {"gamma": {"pinned": None, "ttl": 60.0}}
    assert hotseat.call("POST", "/hotseat/profiles/day").status == 200
    with ThreadPoolExecutor(3) as clients:
        loading = clients.submit(hotseat.load, "gamma")
        eventually(lambda: hotseat.processes("until "))
        restarted = clients.submit(hotseat.cli, "restart")
        waiting = clients.submit(hotseat.chat, "alpha")
        eventually(lambda: b"hotseat is restarting" in hotseat.call("GET", "/hotseat/queue").body)
        override(hotseat, "alpha", pinned=True)
        override(hotseat, "gamma")
        meanwhile = override(hotseat, "beta", ttl=60)
        hotseat.call("POST", "/hotseat/profiles/night")
        go.touch()
        loading.result()
        assert restarted.result().returncode == 0
        assert waiting.result().status == 200

    assert (
        meanwhile
        == overrides(hotseat)
        == {"alpha": {"pinned": True, "ttl": None}, "beta": {"pinned": None, "ttl": 60.0}}
    )
    assert hotseat.call("GET", "/hotseat/profiles").json()["active"] == "night"
    override(hotseat, "alpha")
    assert override(hotseat, "beta") == {}
    assert hotseat.call("GET", "/hotseat/models/beta").json()["ttl"] == 900
    assert hotseat.chat("beta").status == 200  # alpha can be evicted again
    hotseat.call("DELETE", "/hotseat/profiles")
    assert hotseat.call("GET", "/hotseat/profiles").json()["active"] is None


def test_a_restart_while_the_models_of_the_startup_load(start: Callable[..., Hotseat], tmp_path: Path) -> None:
    """The new process loads those that are left, and none of them again."""
    go = tmp_path / "go"
    slow = {"cmd": f"sh -c 'until [ -e {go} ]; do sleep 0.05; done; exec {llama('alpha')['cmd']}'"}
    models = {"gamma": slow, "alpha": llama("alpha"), "beta": llama("beta")}
    hotseat = start(models, hooks={"on_startup": {"preload": [*models]}})
    eventually(lambda: hotseat.processes("until "))
    with ThreadPoolExecutor(2) as clients:
        restarted = clients.submit(hotseat.cli, "restart")
        waiting = clients.submit(hotseat.chat, "alpha")
        eventually(lambda: b"hotseat is restarting" in hotseat.call("GET", "/hotseat/queue").body)
        go.touch()
        assert restarted.result().returncode == 0
        assert waiting.result().status == 200

    eventually(lambda: hotseat.running() == ["beta"])
    assert hotseat.log().count('"starting model server", "model": "gamma"') == 1


def override(hotseat: Hotseat, model: str, **values: object) -> dict[str, Any]:
    """Set these, and return what is set now."""
    assert hotseat.call("PUT", f"/hotseat/models/{model}/overrides", values).status == 200
    return overrides(hotseat)


def overrides(hotseat: Hotseat) -> dict[str, Any]:
    listed = hotseat.call("GET", "/hotseat/models").json()["models"]
    return {each["model"]: each["overrides"] for each in listed if each["overrides"]}
