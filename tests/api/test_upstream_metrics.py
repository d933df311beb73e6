"""GET /metrics/upstreams: which model servers are asked, and that asking changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs
from tests.support.catalogs import sleeps
from tests.support.fake_launcher import catalog, spec
from tests.support.management import management
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.management import Management

ALPHA, BETA = ModelName("alpha"), ModelName("beta")


async def samples(rig: Management) -> list[str]:
    answer = await rig.get("/metrics/upstreams")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return [line for line in answer.text.splitlines() if not line.startswith("#")]


async def test_without_ready_servers_nobody_is_asked(rig: Management) -> None:
    """A cold model is not started, and one that loads is not disturbed."""
    async with asyncio.TaskGroup() as tasks:
        loading = tasks.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.launcher.is_starting("slow"))
        before = rig.journal.n
        found = await samples(rig)
        asked, after = list(rig.launcher.asked_for_metrics), rig.journal.n
        rig.launcher.become_ready("slow")

    assert loading.result().status_code == 200
    assert (found, asked) == ([], [])
    assert after == before


async def test_a_sleeping_server_is_not_asked(tmp_path: Path) -> None:
    """Only the model that is ready is on the page, and the scheduler hears nothing of the scrape."""
    async with management(tmp_path / "socket", catalog(spec("alpha", sleep=sleeps()), spec("beta"))) as rig:
        await rig.dispatcher.operator.load(ALPHA)
        await rig.dispatcher.operator.load(BETA)
        rig.launcher.metrics_pages |= {"alpha": "x 1\n", "beta": "x 2\n"}
        before = rig.journal.n
        found = await samples(rig)

        assert rig.dispatcher.views.of(ALPHA).phase is Phase.ASLEEP
        assert found == ['hotseat_upstream_up{model="beta"} 1', 'x{model="beta"} 2']
        assert rig.launcher.asked_for_metrics == ["beta"]
        assert rig.journal.n == before


async def test_a_server_without_metrics_is_reported(rig: Management) -> None:
    """The scrape succeeds, and a sample says that the server has printed nothing."""
    await rig.get("/upstream/alpha/load")

    assert await samples(rig) == ['hotseat_upstream_up{model="alpha"} 0']


async def test_it_is_switched_off_with_the_other_metrics(rig: Management) -> None:
    """With `metrics: false` it is 404 and names the setting."""
    rig.settings = structs.replace(rig.settings, metrics=False)
    answer = await rig.get("/metrics/upstreams")

    assert answer.status_code == 404
    assert "metrics: false" in answer.json()["error"]
