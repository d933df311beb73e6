"""The fleet routes of the API, with hosts in one process that call each other over HTTP."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.api.routes import fleet as routes
from hotseat.identifiers import ModelName
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from tests.support.loop_turns import Turns
    from tests.support.management import Management
    from tests.support.served_fleet import Served

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


async def test_the_fleet_is_shown_with_its_hosts_and_models(hosts: Served) -> None:
    """The response names the queried host, its connection state, and every host with its models."""
    await hosts.fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "ready"})
    shown = await hosts.get("a", "/hotseat/fleet")

    assert (shown["host"], shown["connection"], shown["claims"]) == ("a", "connected", [])
    assert [(host["host"], host["state"], host["cordoned"]) for host in shown["hosts"]] == [
        ("a", "this_host", False),
        ("b", "reachable", False),
        ("c", "reachable", False),
    ]
    [llama] = shown["hosts"][2]["residents"]
    assert (llama["model"], llama["phase"], llama["in_flight"], llama["pinned"]) == ("llama", "ready", 0, False)


@pytest.mark.parametrize("turns", [(routes, "host")], indirect=True)
async def test_a_fleet_of_many_hosts_is_shown(hosts: Served, turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response is made in slices, so that other requests go on."""
    view = hosts.fleet["a"].fleet_admin.view()
    large = replace(view, hosts=view.hosts * 40)
    monkeypatch.setattr(hosts.fleet["a"].fleet_admin, "view", lambda: large)
    shown = await hosts.get("a", "/hotseat/fleet")

    assert len(shown["hosts"]) == turns.calls == 3 * 40
    assert turns.most_in_a_turn <= routes.AT_ONCE


@pytest.mark.parametrize(("order", "key"), [("cordon", "cordoned"), ("drain", "drained")])
async def test_orders_come_and_go(hosts: Served, order: str, key: str) -> None:
    """PUT gives an order and DELETE withdraws it, through any host."""

    async def is_ordered() -> bool:
        return bool((await hosts.get("c", "/hotseat/fleet"))["hosts"][1][key])

    given = await hosts.ask("a", "PUT", f"/hotseat/fleet/hosts/b/{order}")
    await come_true(lambda: hosts.fleet["c"].fleet_admin.view().hosts[1].orders)
    during = await is_ordered()
    taken = await hosts.ask("c", "DELETE", f"/hotseat/fleet/hosts/b/{order}")
    await come_true(lambda: not hosts.fleet["c"].fleet_admin.view().hosts[1].orders)

    assert (given.status_code, given.json()["status"], taken.status_code) == (200, "ok", 200)
    assert (during, await is_ordered()) == (True, False)


async def test_a_host_that_nobody_knows_is_not_found(hosts: Served) -> None:
    """The error names the host."""
    answer = await hosts.ask("a", "DELETE", "/hotseat/fleet/hosts/z/drain")

    assert answer.status_code == 404
    assert answer.json()["error"] == 'the fleet has no host named "z".'


@pytest.mark.parametrize(("order", "obeyed"), [("cordon", "cordoned"), ("drain", "drained")])
async def test_a_host_that_has_not_joined_yet_gets_an_order(hosts: Served, order: str, obeyed: str) -> None:
    """The answer says that the order waits for it."""
    answer = await hosts.ask("a", "PUT", f"/hotseat/fleet/hosts/z/{order}")

    assert (answer.status_code, answer.json()["message"]) == (
        200,
        f"z is not in the fleet now: it will be {obeyed} when it joins",
    )


async def test_a_model_is_moved_over_http(hosts: Served) -> None:
    """A third host moves a model, by its alias, from one host to another."""
    fleet = hosts.fleet
    fleet["b"].launcher.broken = ()
    await fleet["a"].dispatcher.operator.load(QWEN)
    await come_true(lambda: fleet["c"].phases_seen("a") == {"qwen": "ready"})
    moved = await hosts.ask("c", "POST", "/hotseat/fleet/models/q/move?to=b")

    assert (moved.status_code, moved.json()) == (
        200,
        {"status": "ok", "message": "qwen is ready on b and has stopped on a"},
    )
    assert (fleet["a"].running(), fleet["b"].running()) == ([], ["qwen"])


async def test_a_move_that_cannot_be_is_refused(hosts: Served) -> None:
    """A failed start is 503, a model missing on the target is 409, and an unknown model is 404."""
    failed = await hosts.ask("a", "POST", "/hotseat/fleet/models/qwen/move?to=b")
    elsewhere = await hosts.ask("a", "POST", "/hotseat/fleet/models/qwen/move?to=c")
    unknown = await hosts.ask("a", "POST", "/hotseat/fleet/models/nobody/move?to=b")

    assert (failed.status_code, elsewhere.status_code, unknown.status_code) == (503, 409, 404)
    assert "qwen exited with code 1" in failed.json()["error"]
    assert elsewhere.json()["error"] == "c does not have qwen in its configuration. Add it there first."


async def test_a_host_that_is_apart_is_ready_and_says_so(hosts: Served) -> None:
    """A disconnected host is ready and says that it is disconnected; an order through it is 503."""
    before = await hosts.ask("a", "GET", "/hotseat/ready")
    hosts.fleet["a"].store.cut_off()
    await come_true(lambda: hosts.fleet["a"].fleet_admin.connection.value == "disconnected")
    after = await hosts.ask("a", "GET", "/hotseat/ready")
    order = await hosts.ask("a", "PUT", "/hotseat/fleet/hosts/b/drain")

    assert before.json() == {"status": "ok", "message": "hotseat is ready", "fleet": "connected"}
    assert (after.status_code, after.json()["fleet"]) == (200, "disconnected")
    assert after.json()["message"] == "hotseat is ready, but disconnected from the fleet"
    assert (await hosts.get("a", "/hotseat/models"))["fleet"] == {"host": "a", "connection": "disconnected"}
    assert order.status_code == 503


async def test_why_has_the_reasons_of_other_hosts(hosts: Served) -> None:
    """A model on two hosts has its own report and the reason from the other host; local=true omits the latter."""
    fleet = hosts.fleet
    fleet["b"].launcher.broken = ()
    await fleet["b"].dispatcher.operator.load(QWEN)
    await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})
    details = await hosts.get("a", "/hotseat/models/q")
    alone = await hosts.get("a", "/hotseat/models/q?local=true")
    theirs = fleet["b"].dispatcher.views.of(QWEN).why

    assert (details["host"], details["phase"]) == ("a", "cold")
    assert details["other_hosts"] == [{"host": "b", "phase": "ready", "why": theirs}]
    assert alone["other_hosts"] == []


async def test_the_details_of_a_model_of_another_host_come_from_that_host(hosts: Served) -> None:
    """The host that has a model reports on it, whether it is cold or ready."""
    await come_true(lambda: "llama" in hosts.fleet["a"].dispatcher.catalog.fleet_models)
    cold = await hosts.get("a", "/hotseat/models/llama")
    await hosts.fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: hosts.fleet["a"].phases_seen("c") == {"llama": "ready"})
    ready = await hosts.get("a", "/hotseat/models/llama")

    assert (cold["host"], cold["phase"]) == ("c", "cold")
    assert (ready["host"], ready["phase"], ready["other_hosts"]) == ("c", "ready", [])
    assert ready["last_start"]["reason"]


async def test_a_silent_host_is_named(hosts: Served) -> None:
    """If a host does not respond, its phase is shown with the problem, or the error names both."""
    fleet = hosts.fleet
    fleet["b"].launcher.broken = ()
    await fleet["b"].dispatcher.operator.load(QWEN)
    await fleet["c"].dispatcher.operator.load(LLAMA)
    await come_true(lambda: fleet["a"].phases_seen("b") == {"qwen": "ready"})
    await come_true(lambda: fleet["a"].phases_seen("c") == {"llama": "ready"})
    for name in "bc":
        await hosts.fall_silent(name)
    qwen = await hosts.get("a", "/hotseat/models/qwen")
    llama = await hosts.ask("a", "GET", "/hotseat/models/llama")

    [on_b] = qwen["other_hosts"]
    assert (on_b["host"], on_b["phase"], on_b["why"].partition(" (")[0]) == ("b", "ready", "b did not answer")
    assert llama.status_code == 502
    assert llama.json()["error"].startswith("llama is ready on c; c did not answer (")


@pytest.mark.parametrize(
    ("key_is_for", "named", "status"),
    [("qwen", "qwen", 409), ("qwen", "q", 409), ("qwen", "llama", 403), ("q", "q", 403)],
)
async def test_a_key_moves_the_models_that_it_is_for(hosts: Served, key_is_for: str, named: str, status: int) -> None:
    """What is moved counts, whatever it is called: here, a selector may have the name that is an alias elsewhere."""
    hosts.parts["a"].accounts.open([ApiKey("sesame", Role.OPERATE, models=(key_is_for,))])
    as_holder = {HELD: sha256(b"sesame").hexdigest()}
    answer = await hosts.ask("a", "POST", f"/hotseat/fleet/models/{named}/move?to=c", headers=as_holder)

    assert answer.status_code == status  # c does not have qwen


async def test_a_host_that_is_alone_has_no_fleet(rig: Management) -> None:
    """Without a fleet, each fleet route is 409, and readiness and the model list do not mention one."""
    refused = [
        await rig.client.request(method, f"/hotseat/fleet{path}")
        for method, path in (
            ("GET", ""),
            ("PUT", "/hosts/b/cordon"),
            ("DELETE", "/hosts/b/cordon"),
            ("PUT", "/hosts/b/drain"),
            ("DELETE", "/hosts/b/drain"),
            ("POST", "/models/alpha/move?to=b"),
            ("POST", "/hosts/b/restart"),
            ("GET", "/requests"),
            ("GET", "/models/alpha"),
            ("GET", "/logs?model=alpha"),
        )
    ]

    assert {answer.status_code for answer in refused} == {409}
    assert {answer.json()["error"].partition(".")[0] for answer in refused} == {"this host is not in a fleet"}
    assert (await rig.get("/hotseat/ready")).json() == {"status": "ok", "message": "hotseat is ready"}
    assert (await rig.get("/hotseat/models")).json()["fleet"] is None
