"""POST /hotseat/fleet/hosts/{host}/restart: one host restarts another, and waits until it is back."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.management import FakeRestarts
from tests.support.waiting import come_true

from hotseat import __version__
from hotseat.activity.usage import HELD
from hotseat.fleet import host_restarts
from hotseat.fleet.host_restarts import HostRestarts
from hotseat.fleet.node import FleetNode
from hotseat.fleet.other_hosts import HostHttp
from hotseat.fleet.records import HostOrder
from hotseat.identifiers import HostName, ModelName
from hotseat.net.http_client import Answer
from hotseat.scheduling.events import CatalogChanged
from hotseat.settings import ApiKey, Role
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import httpx2
    from tests.support.served_fleet import Served

    from hotseat.fleet.other_hosts import Receiver

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


def rejoin(
    hosts: Served, name: str, monkeypatch: pytest.MonkeyPatch, loses: ModelName | None = None, *, changes: bool = False
) -> FakeRestarts:
    """A restart as the other hosts see it: the host leaves, and comes back with another process."""
    host, restarts = hosts.fleet[name], hosts.parts[name].restarts

    async def restart() -> int:
        pid = await FakeRestarts.restart(restarts)
        await host.node.leave()
        if loses:
            await host.dispatcher.operator.unload(loses)
        if changes:
            host.dispatcher.tell(CatalogChanged(catalog(spec("llama", aliases=("other",)))))
        host.node = FleetNode(host.node._settings, host.store, host.dispatcher, lambda: False)
        host.journal.listen(host.node.watch)
        await host.node.join()
        return pid

    monkeypatch.setattr(restarts, "restart", restart)
    return restarts


async def restarted(hosts: Served, host: str, *models: str) -> httpx2.Response:
    """By an administrator at a, whose key is for these models, or for all."""
    hosts.parts["a"].accounts.open([ApiKey("sesame", Role.ADMIN, models=models)])
    as_holder = {HELD: sha256(b"sesame").hexdigest()}
    return await hosts.ask("a", "POST", f"/hotseat/fleet/hosts/{host}/restart", headers=as_holder)


async def test_a_host_comes_back_with_its_models(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer names the host, its version and the models that it has kept."""
    await hosts.fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "ready"})
    restarts = rejoin(hosts, "c", monkeypatch)
    try:
        answer = await restarted(hosts, "c")
    finally:
        await hosts.fleet["c"].node.leave()

    assert answer.status_code == 200, answer.text
    assert answer.json()["message"] == f"c has restarted as version {__version__}, with its models: llama"
    assert restarts.attempts == 1


async def test_a_host_comes_back_without_a_model(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it, because the next host must not be restarted."""
    monkeypatch.setattr(host_restarts, "BACK_S", 5.0)
    await hosts.fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "ready"})
    rejoin(hosts, "c", monkeypatch, loses=LLAMA)
    try:
        answer = await restarted(hosts, "c")
    finally:
        await hosts.fleet["c"].node.leave()

    assert (answer.status_code, answer.headers["X-Error-Code"]) == (503, "restart_failed")
    assert "c has restarted, but without llama" in answer.json()["error"]


@pytest.mark.parametrize("reason", ["another definition", "a drain"])
async def test_a_host_comes_back_without_a_model_that_it_need_not_have(
    hosts: Served, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A new process stops models whose definition has changed, and a drained host unloads its models."""
    await hosts.fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "ready"})
    if reason == "a drain":
        # Only a knows of the order: c itself would unload the model before the restart.
        hosts.fleet["a"].node.roster.orders.put(HostName("c"), HostOrder(drained=True))
    rejoin(hosts, "c", monkeypatch, loses=LLAMA, changes=reason == "another definition")
    try:
        answer = await restarted(hosts, "c")
    finally:
        await hosts.fleet["c"].node.leave()

    assert answer.status_code == 200, answer.text
    assert answer.json()["message"] == f"c has restarted as version {__version__}, without a loaded model"


async def test_a_host_does_not_come_back(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that a new process has taken over, and the fleet never sees it."""
    monkeypatch.setattr(host_restarts, "BACK_S", 0.2)
    answer = await restarted(hosts, "b")

    assert answer.status_code == 503
    assert "b has restarted, but was not back in the fleet after 0.2 s" in answer.json()["error"]


async def test_a_host_whose_new_process_fails(hosts: Served) -> None:
    """The error has that host's reason."""
    hosts.parts["b"].restarts.problem = "config.yaml:3:1: error: unknown key"
    answer = await restarted(hosts, "b")

    assert answer.status_code == 503
    assert answer.json()["error"].startswith("b did not restart: ")
    assert "config.yaml:3:1: error: unknown key" in answer.json()["error"]


async def test_a_host_that_is_silent(hosts: Served) -> None:
    """It is not told to restart, so nobody waits for it."""
    await hosts.fall_silent("b")
    answer = await restarted(hosts, "b")

    assert answer.status_code == 502
    assert "b does not answer at http" in answer.json()["error"]
    assert hosts.parts["b"].restarts.attempts == 0


async def test_a_proxy_answers_for_a_host_that_is_gone(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is not told to restart, and the error has the proxy's status."""

    async def fetch(*_: object) -> Answer:
        return Answer(504, {})

    monkeypatch.setattr(HostHttp, "fetch", fetch)
    answer = await restarted(hosts, "b")

    assert answer.status_code == 502
    assert "(a response with status 504, but not that of a healthy hotseat), so it was not" in answer.json()["error"]
    assert hosts.parts["b"].restarts.attempts == 0


async def test_a_host_falls_silent_as_it_is_told_to_restart(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have restarted or not: the error says so."""

    async def has_answered(restarts: HostRestarts, to: Receiver) -> None:
        await hosts.fall_silent("b")

    monkeypatch.setattr(HostRestarts, "_check_answers", has_answered)
    answer = await restarted(hosts, "b")

    assert answer.status_code == 502
    assert "b was told to restart and did not say how that went" in answer.json()["error"]


async def test_a_host_hangs_while_it_restarts(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up once its record has been missing for long."""
    monkeypatch.setattr(host_restarts, "BACK_S", 0.2)
    is_over = asyncio.Event()

    async def restart() -> int:
        await hosts.fleet["b"].node.leave()
        await is_over.wait()
        return 1

    monkeypatch.setattr(hosts.parts["b"].restarts, "restart", restart)
    answer = await restarted(hosts, "b")
    is_over.set()

    assert answer.status_code == 502
    assert "b was told to restart, left the fleet and did not return" in answer.json()["error"]


async def test_a_host_hangs_in_a_restart_and_stays_in_the_fleet(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take its time while a model loads there, and is given up a while after that."""
    monkeypatch.setattr(host_restarts, "QUIET_S", 0.5)
    told, is_over, launcher = asyncio.Event(), asyncio.Event(), hosts.fleet["c"].launcher
    launcher.slow = ("llama",)
    loading = Tasks().start(hosts.fleet["c"].dispatcher.operator.load(LLAMA), "load")
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "loading"})

    async def restart() -> int:
        told.set()
        await is_over.wait()
        return 1

    monkeypatch.setattr(hosts.parts["c"].restarts, "restart", restart)
    asked = Tasks().start(restarted(hosts, "c"), "restart")
    await told.wait()
    roster, told_at = hosts.fleet["a"].node.roster, asyncio.get_running_loop().time()
    await come_true(lambda: any(each.name == "c" and each.received_at > told_at + 1.0 for each in roster.hosts))
    was_given_up = asked.done()
    launcher.become_ready("llama")
    await loading
    answer = await asked
    is_over.set()

    assert not was_given_up
    assert answer.status_code == 502
    assert "c was told to restart and does not say how that went, although" in answer.json()["error"]


async def test_a_host_of_which_nobody_knows(hosts: Served) -> None:
    """One that has an order and is absent is not restarted either."""
    unknown = await restarted(hosts, "z")
    await hosts.ask("a", "PUT", "/hotseat/fleet/hosts/b/cordon")
    await hosts.fleet["b"].node.leave()
    await come_true(lambda: len(hosts.fleet["a"].fleet_admin.view().hosts) == 2)
    absent = await restarted(hosts, "b")

    assert (unknown.status_code, absent.status_code) == (404, 502)
    assert absent.json()["error"] == "b is not in the fleet at present, so it was not restarted"


async def test_the_host_that_is_asked(hosts: Served) -> None:
    """It restarts as by `POST /hotseat/restart`: its old process answers, and cannot see the new one join."""
    answer = await restarted(hosts, "a")

    assert (answer.status_code, answer.json()["message"]) == (200, "process 4187 has taken over on a")
    assert hosts.parts["a"].restarts.attempts == 1


async def test_a_host_that_is_disconnected_restarts_nobody(hosts: Served) -> None:
    """It could not see the other one come back."""
    hosts.fleet["a"].store.cut_off()
    await come_true(lambda: hosts.fleet["a"].fleet_admin.connection.value == "disconnected")
    answer = await restarted(hosts, "b")

    assert answer.status_code == 503
    assert hosts.parts["b"].restarts.attempts == 0


async def test_who_may_not_restart_hosts(hosts: Served) -> None:
    """Neither a key for some models nor anybody without keys: nothing was asked of the host."""
    limited = await restarted(hosts, "b", "qwen")
    nobody = await hosts.ask("a", "POST", "/hotseat/fleet/hosts/b/restart")

    assert (limited.status_code, nobody.status_code) == (403, 403)
    assert "without API keys a host can only be restarted on its own machine" in nobody.json()["error"]
    assert hosts.parts["b"].restarts.attempts == 0
