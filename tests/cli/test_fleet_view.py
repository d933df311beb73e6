"""`hotseat fleet ps`, `requests`, `logs` and `why`: all hosts on one terminal, through one of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.support.command_line import CommandLine
from tests.support.fake_launcher import catalog, spec
from tests.support.waiting import come_true

from hotseat.activity.recent import InProgress
from hotseat.cli.fleet import about
from hotseat.errors import LoadFailed
from hotseat.fleet.view import Order
from hotseat.identifiers import ClientId, HostName, ModelName, TicketId
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from tests.support.command_line import Typed
    from tests.support.served_fleet import Served

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
SENT = InProgress(
    TicketId(7), b"id-1", QWEN, ClientId("ann"), b"POST", b"/v1/chat/completions", 1.0, None, 5.0, False, HostName("b")
)


@pytest.fixture
def at_a(hosts: Served, typed: Typed) -> CommandLine:
    return CommandLine(hosts.parts["a"], hosts.urls["a"], typed)


async def load(hosts: Served, host: str, model: ModelName) -> None:
    hosts.fleet[host].launcher.broken = ()
    await hosts.fleet[host].dispatcher.operator.load(model)
    await come_true(lambda: hosts.fleet["a"].phases_seen(host).get(model) == "ready")


async def test_ps_shows_the_models_of_all_hosts(hosts: Served, at_a: CommandLine) -> None:
    """They are sorted by host, and --json prints the same for programs."""
    await load(hosts, "c", LLAMA)
    await load(hosts, "b", QWEN)
    text = (await at_a.type("fleet", "ps")).out
    rows = json.loads((await at_a.type("fleet", "ps", "--json")).out)
    head, *lines = [line.split() for line in text.splitlines()]

    assert head[:3] == ["HOST", "MODEL", "PHASE"]
    assert [line[:5] for line in lines] == [["b", "qwen", "ready", "0", "0"], ["c", "llama", "ready", "0", "0"]]
    assert [(row["host"], row["model"]) for row in rows] == [("b", "qwen"), ("c", "llama")]
    assert all(0 <= row["phase_s"] < 600 for row in rows)


async def test_ps_of_a_host_that_is_disconnected(hosts: Served, at_a: CommandLine) -> None:
    """What it shows is its last known state, and it says so."""
    hosts.fleet["a"].store.cut_off()
    await come_true(lambda: hosts.fleet["a"].fleet_admin.connection.value == "disconnected")

    assert "a is disconnected from the fleet" in (await at_a.type("fleet", "ps")).out


async def test_requests_of_all_hosts(hosts: Served, at_a: CommandLine) -> None:
    """A forwarded request has both hosts, and is there once; hosts that did not answer are named, with the problem."""
    hosts.parts["a"].in_progress = [SENT]
    hosts.parts["b"].in_progress = [replace(SENT, ticket=TicketId(3), host=None, from_host=HostName("a"))]
    await hosts.fall_silent("c")
    said = await at_a.type("fleet", "requests")
    found = json.loads((await at_a.type("fleet", "requests", "--json")).out)
    _, row, _, silent = said.out.splitlines()

    assert row.split() == ["b", "a", "7", "qwen", "ann", "sent", "1s", "5s", "POST", "/v1/chat/completions"]
    assert silent.startswith("c did not answer (")
    assert silent.endswith("): requests that only these hosts know are missing")
    assert [each["ticket"] for each in found["in_progress"]] == [7]


async def test_logs_of_a_model_on_another_host(hosts: Served, at_a: CommandLine) -> None:
    """Each line has its host, and --json prints it as JSON."""
    await load(hosts, "b", QWEN)
    hosts.parts["b"].logs.write("qwen", "loading")
    said = await at_a.type("fleet", "logs", "q", "--json")
    text = await at_a.type("fleet", "logs", "q")

    assert [(line["host"], line["text"]) for line in map(json.loads, said.out.splitlines())] == [("b", "loading")]
    assert text.out.endswith(" b qwen | loading\n")


async def test_logs_are_followed(hosts: Served, at_a: CommandLine) -> None:
    """The command ends when the host that it asks does."""
    await load(hosts, "b", QWEN)
    hosts.parts["b"].logs.write("qwen", "loading")
    hosts.parts["a"].feeds_end.set()
    said = await at_a.type("fleet", "logs", "qwen", "-f")

    assert said.code == 0
    assert [line.rpartition(" | ")[2] for line in said.out.splitlines()] in ([], ["loading"])


async def test_the_log_of_a_host(hosts: Served, at_a: CommandLine) -> None:
    """It is hotseat's own log there."""
    hosts.parts["b"].logs.write_own("info", "I am b")

    assert (await at_a.type("fleet", "logs", "--host", "b")).out.endswith(" b hotseat | INFO I am b\n")


async def test_logs_of_nobody(at_a: CommandLine) -> None:
    """A model or a host is needed."""
    said = await at_a.type("fleet", "logs")

    assert said.code == 2
    assert "name a model or use --host" in said.err


async def test_following_a_model_that_runs_elsewhere(hosts: Served, at_a: CommandLine) -> None:
    """`hotseat logs -f` says where it runs and what to type, instead of waiting for output that never comes."""
    await load(hosts, "b", QWEN)
    hosts.parts["a"].logs.write("qwen", "what it said here last week")
    said = await at_a.type("logs", "-f", "qwen")

    assert (said.code, said.out) == (1, "")
    assert "qwen runs on b, and its log is there:\n  hotseat fleet logs qwen -f\n" in said.err


async def test_why_explains_each_host(hosts: Served, at_a: CommandLine) -> None:
    """A host has its reason, what prevents a load there, and a definition that differs."""
    await hosts.fleet["a"].dispatcher.operator.load(QWEN)
    with pytest.raises(LoadFailed):
        await hosts.fleet["b"].dispatcher.operator.load(QWEN)
    hosts.fleet["b"].dispatcher.tell(CatalogChanged(catalog(spec("qwen", aliases=("other",)))))
    await hosts.fleet["a"].fleet_admin.give("b", Order.CORDON)
    await come_true(lambda: hosts.fleet["a"].fleet_admin.view().hosts[1].orders)
    await come_true(lambda: any(each.drift for each in hosts.fleet["a"].fleet_admin.outlooks(QWEN)))
    said = (await at_a.type("fleet", "why", "qwen")).out
    found = json.loads((await at_a.type("fleet", "why", "qwen", "--json")).out)

    assert said.startswith("a: qwen is ready: ")
    assert "\nb: qwen is cold: qwen exited with code 1\n" in said
    assert "\n  gets no requests for it: b is cordoned; uncordon it\n" in said
    assert "\n  defined differently: aliases: ['other']; on a: aliases: ['q']\n" in said
    assert said.endswith("\nc: qwen is not in its configuration\n")
    assert [host["host"] for host in found["hosts"]] == ["a", "b", "c"]


async def test_why_of_a_host_that_is_silent(hosts: Served, at_a: CommandLine) -> None:
    """Its phase is known from its record."""
    await hosts.fall_silent("b")
    said = (await at_a.type("fleet", "why", "qwen")).out

    assert re.search(r"\nb: qwen is not loaded; b did not answer \(.+\), so the reason is unknown\n", said)


def test_why_of_a_host_where_it_failed_before() -> None:
    """The last failure has a line of its own unless it is the reason itself."""
    host = {"host": "b", "phase": "ready", "why": "started for 1 request", "last_error": "qwen crashed"}
    facts = {"is_configured": True, "has_answered": True, "obstacle": None, "differs": None}

    assert about("qwen", {**host, **facts}) == [
        "b: qwen is ready: started for 1 request",
        "  last failure: qwen crashed",
    ]
