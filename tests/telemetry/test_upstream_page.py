"""The page of all model servers, from what each of them printed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.support.waiting import come_true

from hotseat.identifiers import LaunchId, ModelName
from hotseat.telemetry.metric_names import UPSTREAM_UP
from hotseat.telemetry.upstream_page import UpstreamPage, page_of

ALPHA, BETA = ModelName("alpha"), ModelName("org/beta")
HEAD = f"# HELP hotseat_upstream_up {UPSTREAM_UP.meaning}\n# TYPE hotseat_upstream_up gauge\n"


def test_without_servers_there_is_a_page() -> None:
    """A scrape succeeds if no model runs."""
    assert page_of({}).decode() == HEAD


def test_a_server_without_metrics_does_not_hide_the_others() -> None:
    """It has a sample that says so, whether it has no page or one that cannot be read."""
    for page in (None, "<html>"):
        assert page_of({ALPHA: page, BETA: "x 1\n"}).decode() == (
            f'{HEAD}hotseat_upstream_up{{model="alpha"}} 0\nhotseat_upstream_up{{model="org/beta"}} 1\n'
            'x{model="org/beta"} 1\n'
        )


def test_no_server_speaks_for_hotseat() -> None:
    """Families with hotseat's prefix are left out, parts of a histogram included; others of the same page stay."""
    forged = (
        "# TYPE hotseat_waiting gauge\nhotseat_waiting 9\nhotseat_upstream_up 1\n"
        "# TYPE hotseat histogram\nhotseat_sum 9\nx 1\n"
    )
    page = page_of({ALPHA: forged}).decode()

    assert page == f'{HEAD}hotseat_upstream_up{{model="alpha"}} 1\nx{{model="alpha"}} 1\n'


class Servers:
    """One ready server, which prints how often it was asked, when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        running = SimpleNamespace(name=ALPHA, launch=LaunchId(1))
        view = SimpleNamespace(running=lambda: (running,))
        self.page = UpstreamPage(lambda: view, self.ask)  # type: ignore[arg-type, return-value]  # all that is read of it

    async def ask(self, _: LaunchId) -> str:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return f"x {number}\n"


async def test_many_scrapes_at_once() -> None:
    """Who comes while the servers are asked gets the same page; who comes later gets a new one."""
    servers = Servers()
    async with asyncio.TaskGroup() as group:
        scrapes = [group.create_task(servers.page.render()) for _ in range(20)]
        await come_true(lambda: servers.asked)
        servers.may_answer.set()
    later = await servers.page.render()

    assert {b'x{model="alpha"} 1' in scrape.result() for scrape in scrapes} == {True}
    assert (servers.asked, b'x{model="alpha"} 2' in later) == (2, True)


async def test_a_scraper_that_gives_up() -> None:
    """The next one that waits asks the servers itself."""
    servers = Servers()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(servers.page.render())
        await come_true(lambda: servers.asked)
        second = group.create_task(servers.page.render())
        await asyncio.sleep(0)
        first.cancel()
        await come_true(lambda: servers.asked == 2)
        servers.may_answer.set()

    assert b'x{model="alpha"} 2' in second.result()
