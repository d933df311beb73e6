"""GET /hotseat/fleet/models/{model}: a model on each host, and why a host cannot load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.served_fleet import all_answer
from tests.support.waiting import come_true

from hotseat.errors import LoadFailed
from hotseat.fleet.view import Order
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from tests.support.served_fleet import Served

QWEN = ModelName("qwen")


async def hosts_of(hosts: Served, model: str, at: str = "a") -> dict[str, dict[str, Any]]:
    found = await hosts.get(at, f"/hotseat/fleet/models/{model}")
    return {each["host"]: each for each in found["hosts"]}


@pytest.mark.parametrize("at", ["a", "b", "c"])
async def test_each_host_says_its_own(hosts: Served, at: str) -> None:
    """Each host's phase, reason and last failure are its own, whichever host is asked and by whichever name."""
    await hosts.fleet["a"].dispatcher.operator.load(QWEN)
    with pytest.raises(LoadFailed):
        await hosts.fleet["b"].dispatcher.operator.load(QWEN)
    await come_true(lambda: hosts.fleet[at].phases_seen("a") == {"qwen": "ready"})
    await come_true(lambda: "qwen" in hosts.fleet[at].phases_seen("b"))
    found = await hosts_of(hosts, "q", at)

    assert [*found] == ["a", "b", "c"]
    assert (found["a"]["phase"], found["a"]["why"]) == ("ready", hosts.fleet["a"].dispatcher.views.of(QWEN).why)
    assert "qwen exited with code 1" in found["b"]["last_error"]
    assert (found["c"]["is_configured"], found["c"]["phase"], found["c"]["has_answered"]) == (False, None, True)
    assert [each["obstacle"] for each in found.values()] == [None, None, None]


async def test_a_host_that_may_not_load_it(hosts: Served) -> None:
    """Its obstacle and what to do about it are there."""
    await hosts.fleet["a"].fleet_admin.give("b", Order.DRAIN)
    await come_true(lambda: hosts.fleet["a"].fleet_admin.view().hosts[1].orders)
    found = await hosts_of(hosts, "qwen")

    assert (found["b"]["obstacle"], found["b"]["remedy"]) == ("drained", "undrain it")


async def test_a_host_that_defines_it_differently(hosts: Served) -> None:
    """The keys that differ are there with the values of both hosts."""
    hosts.fleet["b"].dispatcher.tell(CatalogChanged(catalog(spec("qwen", aliases=("other",)))))
    await come_true(lambda: len({host.config_digest for host in hosts.fleet["a"].fleet_admin.view().hosts}) == 3)
    await come_true(lambda: "b" in hosts.fleet["a"].fleet_admin.offering(QWEN))
    found = await hosts_of(hosts, "qwen")

    assert found["a"]["differs"] is None
    assert found["b"]["differs"] == {
        "definition": "aliases: ['other']",
        "compared_with": "a",
        "other_definition": "aliases: ['q']",
    }


async def test_a_host_that_is_silent(hosts: Served) -> None:
    """Its phase is known from its record, and the answer says why it gave no reason."""
    await hosts.fall_silent("b")
    found = await hosts_of(hosts, "qwen")

    assert (found["b"]["has_answered"], found["a"]["has_answered"]) == (False, True)
    assert found["b"]["why"].startswith("b did not answer (")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"phase": 7}', b'{"x":' + b"[" * 100_000])
async def test_an_answer_that_cannot_be_read(hosts: Served, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """It is as good as none."""
    all_answer(monkeypatch, answer)

    assert (await hosts_of(hosts, "qwen"))["b"]["has_answered"] is False


async def test_a_model_that_nobody_has(hosts: Served) -> None:
    """The error has a suggestion."""
    answer = await hosts.ask("a", "GET", "/hotseat/fleet/models/qwem")

    assert answer.status_code == 404
    assert answer.json()["error"] == 'no host of the fleet has a model named "qwem". Did you mean "qwen"?'
