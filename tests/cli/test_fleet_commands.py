"""`hotseat fleet` against a host of a fleet in one process."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.support.command_line import CommandLine, completed
from tests.support.fake_launcher import catalog, spec
from tests.support.fleet_in_process import InProcessFleet, in_process_fleet
from tests.support.management import application, around, served
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe
from hotseat.cli.fleet import path_warnings, reached
from hotseat.fleet.member import PathState
from hotseat.identifiers import HostName, ModelName
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.command_line import Typed

QWEN = ModelName("qwen")
DAY_S = 86400
REFUSALS = 6
"""After so many a host is left out for a minute, although it renews its record."""


@pytest.fixture
async def fleet() -> AsyncIterator[InProcessFleet]:
    async with in_process_fleet("gpu1", "gpu2") as fleet:
        yield fleet


@pytest.fixture
async def gpu1(fleet: InProcessFleet, typed: Typed, tmp_path: Path) -> AsyncIterator[CommandLine]:
    """A command line for one of two hosts."""
    host = fleet["gpu1"]
    async with httpx2.AsyncClient(verify=False) as client:
        rig = around(host.dispatcher, host.journal, host.launcher, client, tmp_path)
        rig.fleet = host.fleet_admin
        async with served(application(rig), host="127.0.0.1", port=0) as port:
            yield CommandLine(rig, f"http://127.0.0.1:{port}", typed)


async def test_status_shows_the_hosts(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """One row per host has its state, its orders and its models."""
    await fleet["gpu2"].dispatcher.operator.load(QWEN)
    await gpu1.type("fleet", "cordon", "gpu2")
    await come_true(lambda: fleet["gpu1"].fleet_admin.view().hosts[1].orders)
    await come_true(lambda: fleet["gpu1"].phases_seen("gpu2") == {"qwen": "ready"})
    said = await gpu1.type("fleet", "status")
    head, here, other, _, columns, *paths = said.out.splitlines()

    assert head.split("  ")[0] == "HOST"
    assert here.split()[:3] == ["gpu1", "this", "host"]
    assert other.split()[:2] == ["gpu2", "last"]
    assert "cordoned" in other
    assert "qwen (ready)" in other
    assert columns.split("  ") == ["FROM", "TO gpu1", "TO gpu2"]
    assert [row.split() for row in paths] == [["gpu1", "-", "yes"], ["gpu2", "yes", "-"]]


async def test_status_shows_who_has_another_configuration(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """Hosts with the same configuration have the same digest in the column CONFIG, and one that deviates another."""
    same = await digests(gpu1)
    fleet["gpu2"].dispatcher.tell(CatalogChanged(catalog(spec("qwen", aliases=("other",)), spec("llama"))))
    await come_true(lambda: len({host.config_digest for host in fleet["gpu1"].fleet_admin.view().hosts}) == 2)
    differing = await digests(gpu1)

    assert [len(digest) for digest in same] == [8, 8]
    assert same[0] == same[1] == differing[0] != differing[1]


async def digests(line: CommandLine) -> list[str]:
    head, *rows = (await line.type("fleet", "status")).out.partition("\n\n")[0].splitlines()
    begin = head.index("CONFIG")
    return [row[begin:].split()[0] for row in rows]


@pytest.mark.parametrize("name", ["qwen", "q"])
async def test_logs_of_a_model_on_another_host_say_where_they_are(
    name: str, gpu1: CommandLine, fleet: InProcessFleet
) -> None:
    """The command fails, and names the host and what to type, also for an alias."""
    await fleet["gpu2"].dispatcher.operator.load(QWEN)
    await come_true(lambda: fleet["gpu1"].phases_seen("gpu2") == {"qwen": "ready"})
    said = await gpu1.type("logs", name)

    assert said.code == 1
    assert "qwen runs on gpu2, and its log is there:\n  hotseat fleet logs qwen\n" in said.err
    assert said.out == ""


async def test_logs_of_a_model_that_only_another_host_has(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """The answer is the same as for a model of both; before it runs anywhere, nobody has a log of it."""
    fleet["gpu2"].dispatcher.tell(CatalogChanged(catalog(spec("gemma"))))
    await come_true(lambda: "gemma" in fleet["gpu1"].dispatcher.catalog.fleet_models)
    before = await gpu1.type("logs", "gemma")
    await fleet["gpu2"].dispatcher.operator.load(ModelName("gemma"))
    await come_true(lambda: "gemma" in fleet["gpu1"].phases_seen("gpu2"))
    after = await gpu1.type("logs", "gemma")

    assert (before.code, after.code) == (1, 1)
    assert "is a model of other hosts" in before.err
    assert "hotseat fleet logs gemma" in after.err


async def test_logs_of_a_model_that_runs_nowhere_are_empty(gpu1: CommandLine) -> None:
    """A model of this host that was never started has no output, which is no error."""
    said = await gpu1.type("logs", "llama")

    assert (said.code, said.out) == (0, "")


async def test_logs_of_a_model_that_runs_here_too(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """Its server has said nothing here yet: the other host's log is not meant."""
    for each in fleet.hosts.values():
        await each.dispatcher.operator.load(QWEN)
    await come_true(lambda: fleet["gpu1"].phases_seen("gpu2") == {"qwen": "ready"})
    said = await gpu1.type("logs", "qwen")

    assert (said.code, said.out) == (0, "")


async def test_status_shows_orders_of_hosts_that_are_not_there(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """Orders wait for the host, and can be withdrawn meanwhile."""
    await gpu1.type("fleet", "drain", "gpu2")
    await fleet["gpu2"].node.leave()
    await come_true(lambda: len(fleet["gpu1"].fleet_admin.view().hosts) == 1)
    await gpu1.type("fleet", "undrain", "gpu2")
    await come_true(lambda: not fleet["gpu1"].fleet_admin.view().absent)
    drained = await gpu1.type("fleet", "drain", "gpu2")
    await come_true(lambda: fleet["gpu1"].fleet_admin.view().absent)
    *_, head, row = (await gpu1.type("fleet", "status")).out.splitlines()
    await gpu1.type("fleet", "undrain", "gpu2")
    await come_true(lambda: not fleet["gpu1"].fleet_admin.view().absent)
    after = (await gpu1.type("fleet", "status")).out

    assert drained.out == "gpu2 is not in the fleet now: it will be drained when it joins\n"
    assert head.split("  ") == ["ABSENT HOST", "WHEN IT JOINS"]
    assert row.split() == ["gpu2", "drained"]
    assert "ABSENT HOST" not in after


async def test_status_shows_models_without_their_files(
    gpu1: CommandLine, fleet: InProcessFleet, tmp_path: Path
) -> None:
    """A table has the host, the model and the file."""
    recipe = LaunchRecipe(("llama-server", "-m", str(tmp_path / "qwen.gguf")), "http://127.0.0.1")
    fleet["gpu2"].dispatcher.tell(CatalogChanged(catalog(replace(spec("qwen"), recipe=recipe))))
    await come_true(lambda: fleet["gpu1"].fleet_admin.view().hosts[1].missing_files)
    *_, head, row = (await gpu1.type("fleet", "status")).out.splitlines()

    assert head.split() == ["HOST", "MODEL", "MISSING", "FILE"]
    assert row.split() == ["gpu2", "qwen", f"{tmp_path}/qwen.gguf"]


async def test_status_shows_which_host_cannot_reach_another(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """Each host says whom it cannot reach, so the host that is asked shows paths of others too, with the reason."""
    for _ in range(REFUSALS):
        fleet["gpu2"].node.host_selector.suspect(HostName("gpu1"), "no connection: No route to host")
    await come_true(lambda: fleet["gpu1"].fleet_admin.view().hosts[1].unreachable)
    *_, columns, first, second, _, head, row = (await gpu1.type("fleet", "status")).out.splitlines()
    said = json.loads((await gpu1.type("fleet", "status", "--json")).out)

    assert columns.split() == ["FROM", "TO", "gpu1", "TO", "gpu2"]
    assert [first.split(), second.split()] == [["gpu1", "-", "yes"], ["gpu2", "no", "-"]]
    assert head.split() == ["FROM", "TO", "NOT", "REACHED", "BECAUSE"]
    assert row.split(maxsplit=2) == ["gpu2", "gpu1", "no connection: No route to host"]
    assert said["broken_paths"] == [{"host": "gpu2", "to": "gpu1", "reason": "no connection: No route to host"}]


def test_who_reaches_whom_as_seen_by_a_host_that_is_disconnected() -> None:
    """What the others last said may have changed since, so only its own row is known."""
    fleet = {
        "host": "gpu1",
        "hosts": [{"host": name} for name in ("gpu1", "gpu2", "gpu3")],
        "broken_paths": [{"host": "gpu1", "to": "gpu3", "reason": "refused"}, {"host": "gpu2", "to": "gpu3"}],
        "connection": "disconnected",
    }
    _, rows = reached(fleet)

    assert rows == [("gpu1", "-", "yes", "no"), ("gpu2", "?", "-", "?"), ("gpu3", "?", "?", "-")]


async def test_status_warns_of_certificates_and_clocks(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """A certificate that ends soon and a clock that is off have a line each, and --json has both figures."""
    ends = time.time() + 13.5 * DAY_S
    fleet.states["gpu2"] = PathState("", ends, -7.0)
    await come_true(lambda: fleet["gpu1"].fleet_admin.view().hosts[1].clock_ahead_s)
    *_, certificate, clock = (await gpu1.type("fleet", "status")).out.splitlines()
    here, there = json.loads((await gpu1.type("fleet", "status", "--json")).out)["hosts"]

    assert certificate == "The certificate of gpu2 ends in 13d11h. Renew it, and reload that host."
    assert clock == "The clock of gpu2 differs by -7 s from that of gpu1. Synchronize both with NTP."
    assert (there["certificate_ends"], there["clock_ahead_s"]) == (ends, -7.0)
    assert (here["certificate_ends"], here["clock_ahead_s"]) == (None, None)


@pytest.mark.parametrize(("days", "ahead_s"), [(15.0, 5.0), (None, None)])
def test_no_warning_of_a_path(days: float | None, ahead_s: float | None) -> None:
    """Certificates that end later, small differences of clocks and what is unknown have no line."""
    ends = None if days is None else time.time() + days * DAY_S

    assert [*path_warnings({"host": "gpu2", "certificate_ends": ends, "clock_ahead_s": ahead_s}, "gpu1")] == []


async def test_status_for_programs(gpu1: CommandLine) -> None:
    """--json prints the API's answer."""
    said = json.loads((await gpu1.type("fleet", "status", "--json")).out)

    assert [host["host"] for host in said["hosts"]] == ["gpu1", "gpu2"]
    assert said["connection"] == "connected"


async def test_status_says_that_a_host_is_apart(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """`hotseat ps` says so too, since people look there first."""
    fleet["gpu1"].store.cut_off()
    await come_true(lambda: fleet["gpu1"].fleet_admin.connection.value == "disconnected")
    status, ps = await gpu1.type("fleet", "status"), await gpu1.type("ps")

    assert "gpu1 is disconnected from the fleet: cut off from the board. Other hosts are shown" in status.out
    assert "gpu1 is disconnected from its fleet" in ps.out


async def test_status_shows_who_was_chosen(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """An agreed load that has not begun is shown with its reason; a host that refused is shown as unreachable."""
    host_selector = fleet["gpu1"].node.host_selector
    for _ in range(REFUSALS):
        host_selector.turned_away(HostName("gpu2"), ModelName("qwen"), "its certificate has expired")
    agreed: list[object] = []
    host_selector.claim_and_select(QWEN, "somebody", agreed.append)  # type: ignore[arg-type]  # a client's name in plain text
    await come_true(lambda: agreed)
    said = (await gpu1.type("fleet", "status")).out

    assert "unreachable (its certificate has expired), last seen" in said
    assert "WILL LOAD ON" in said


@pytest.mark.parametrize(("give", "take", "order"), [("cordon", "uncordon", "cordon"), ("drain", "undrain", "drain")])
async def test_orders_are_typed(gpu1: CommandLine, fleet: InProcessFleet, give: str, take: str, order: str) -> None:
    """Each order can be withdrawn."""

    def orders() -> list[str]:
        return [order.value for order in fleet["gpu2"].fleet_admin.view().hosts[1].orders]

    given = await gpu1.type("fleet", give, "gpu2")
    await come_true(lambda: orders() == [order])
    taken = await gpu1.type("fleet", take, "gpu2")
    await come_true(lambda: orders() == [])

    assert (given.code, taken.code) == (0, 0)
    assert "gpu2" in given.out


async def test_a_model_is_moved_by_a_command(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """The command returns when the model is ready on the new host and gone from the old one."""
    await fleet["gpu1"].dispatcher.operator.load(QWEN)
    said = await gpu1.type("fleet", "move", "q", "gpu2")

    assert (said.code, said.out) == (0, "qwen is ready on gpu2 and has stopped on gpu1\n")


async def test_a_near_miss_gets_a_suggestion(gpu1: CommandLine) -> None:
    """This holds for hosts and models; the exit code says that nothing was done."""
    host = await gpu1.type("fleet", "drain", "gpo2")
    model = await gpu1.type("fleet", "move", "qwem", "gpu2")

    assert (host.code, model.code) == (1, 1)
    assert 'Did you mean "gpu2"?' in host.err
    assert 'Did you mean "qwen"?' in model.err


async def test_why_names_the_other_hosts(gpu1: CommandLine, fleet: InProcessFleet) -> None:
    """This host's reason comes first, then each other host's, or why it gave none."""
    await fleet["gpu2"].dispatcher.operator.load(QWEN)
    await come_true(lambda: fleet["gpu1"].phases_seen("gpu2") == {"qwen": "ready"})
    spoken = (await gpu1.type("why", "qwen")).out.splitlines()
    fleet.silent.add("gpu2")
    silent = (await gpu1.type("why", "qwen")).out.splitlines()

    assert spoken[0].startswith("qwen is cold on gpu1: ")
    assert spoken[-1] == f"it is ready on gpu2: {fleet['gpu2'].dispatcher.views.of(QWEN).why}"
    assert silent[-1] == "it is ready on gpu2: gpu2 did not answer (timeout)"


async def test_a_host_that_is_alone_says_what_to_do(command_line: CommandLine) -> None:
    """The message says that there is no fleet to show."""
    said = await command_line.type("fleet", "status")

    assert said.code == 1
    assert "this host is not in a fleet" in said.err


async def test_the_shell_completes_hosts(gpu1: CommandLine) -> None:
    """Hosts of the running server's fleet that begin as typed; nothing if no server answers."""
    known = await asyncio.to_thread(completed, "hotseat fleet drain gpu", gpu1.url)
    nobody = await asyncio.to_thread(completed, "hotseat fleet drain gpu", "http://127.0.0.1:9")

    assert known.split() == ["gpu1", "gpu2"]
    assert nobody.split() == []
