"""What hotseat shows of itself under /hotseat/."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.management import STARTED_AT
from tests.support.waiting import come_true

from hotseat import tasks
from hotseat.api.routes import status
from hotseat.catalog.catalog import CatalogChange
from hotseat.catalog.spec import Capabilities
from hotseat.config.reload import ReloadResult
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.view import ModelView, View
from hotseat.settings import Readiness, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.management import Management


@pytest.fixture
async def waiting_rig(rig: Management) -> AsyncIterator[Management]:
    """`slow` loads, and somebody waits for it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.launcher.is_starting("slow"))
        yield rig
        rig.launcher.become_ready("slow")


async def test_the_queue_shows_why_a_request_waits(waiting_rig: Management) -> None:
    """A waiting ticket has its model, its client and a reason; oldest_s is its waiting time."""
    queue = (await waiting_rig.get("/hotseat/queue")).json()

    [ticket] = queue["waiting"]
    assert (ticket["model"], ticket["client"]) == ("slow", "operator")
    assert "loading" in ticket["why"]
    assert queue["oldest_s"] == ticket["waited_s"] >= 0


async def test_nobody_waits_where_nothing_is_requested(rig: Management) -> None:
    """An empty queue has oldest_s 0."""
    assert (await rig.get("/hotseat/queue")).json() == {"waiting": [], "oldest_s": 0.0}


async def test_a_model_shows_the_label_of_its_pages(rig: Management) -> None:
    """In the list and in its details."""
    listed = {model["model"]: model["label"] for model in (await rig.get("/hotseat/models")).json()["models"]}

    assert listed["alpha"] == "alpha"
    assert (await rig.get("/hotseat/models/alpha")).json()["label"] == "alpha"


async def test_a_model_shows_phase_and_upstream(rig: Management) -> None:
    """A running model has a phase, pid, port and remaining ttl."""
    await rig.get("/upstream/alpha/load")
    models = {model["model"]: model for model in (await rig.get("/hotseat/models")).json()["models"]}

    alpha = models["alpha"]
    assert (alpha["phase"], alpha["pid"], alpha["port"]) == ("ready", 7001, 40001)
    assert alpha["aliases"] == ["first", "al"]
    assert 0 < alpha["ttl_left_s"] <= 300
    assert models["hidden"]["unlisted"]
    assert models["hidden"]["phase_s"] is None


async def test_a_loading_model_shows_how_much_it_has_read(waiting_rig: Management) -> None:
    """The progress is in the row, in the model's details and in the model list; other models have none."""
    waiting_rig.shares_read |= {"slow": 0.41666, "alpha": 1.0}
    rows = {row["model"]: row for row in (await waiting_rig.get("/hotseat/models")).json()["models"]}
    details = (await waiting_rig.get("/hotseat/models/slow")).json()
    listed = (await waiting_rig.get("/v1/models/slow")).json()

    assert (rows["slow"]["progress"], rows["alpha"]["progress"]) == (0.417, None)
    assert details["progress"] == 0.417
    assert listed["status"] == {"value": "loading", "progress": 0.417}


async def test_a_model_shows_how_many_tokens_a_request_may_have(rig: Management) -> None:
    """What its server reported counts more than what is declared."""
    capable = replace(rig.dispatcher.catalog.models[ModelName("alpha")], capabilities=Capabilities(context=4096))
    rig.dispatcher.tell(CatalogChanged(catalog(capable, spec("hidden"))))
    declared = {row["model"]: row["context"] for row in (await rig.get("/hotseat/models")).json()["models"]}
    rig.contexts["alpha"] = 8192
    reported = (await rig.get("/hotseat/models/alpha")).json()["context"]

    assert declared == {"alpha": 4096, "hidden": None}
    assert reported == 8192


async def test_the_models_come_with_what_they_may_take_and_a_clock(rig: Management) -> None:
    """The list has the start time, the current time, budgets, and each model's memory and pin."""
    body = (await rig.get("/hotseat/models")).json()

    assert body["started_at"] == STARTED_AT
    assert body["at"] > STARTED_AT
    assert body["budgets"] == {}
    assert {model["memory"] for model in body["models"]} == {None}
    assert not any(model["pinned"] for model in body["models"])


async def test_the_details_of_a_model_have_the_causes(rig: Management) -> None:
    """A model's details have the reasons of its last start and its last stop."""
    await rig.get("/upstream/alpha/load")
    await rig.get("/upstream/org/model/load")
    details = (await rig.get("/hotseat/models/alpha")).json()

    assert details["phase"] == "cold"
    assert details["last_start"]["reason"] == "loaded explicitly (operator or preload)"
    assert details["last_stop"]["reason"] == "unloaded for org/model: models run one at a time without `devices`"
    assert [entry["event"]["type"] for entry in details["history"]][-1] == "UpstreamExited"


async def test_the_details_of_a_model_contain_no_secrets(rig: Management) -> None:
    """A start in the history has no command line and no environment."""
    await rig.get("/upstream/alpha/load")
    details = await rig.get("/hotseat/models/alpha")

    [start] = [c for entry in details.json()["history"] for c in entry["commands"] if c["type"] == "StartUpstream"]
    assert start == {
        "type": "StartUpstream",
        "model": "alpha",
        "launch": 1,
        "reason": "loaded explicitly (operator or preload)",
        "gpus": [],
        "alone": False,
    }
    assert "hush" not in details.text


async def test_a_name_with_a_slash_has_details_too(rig: Management) -> None:
    """An encoded slash in the path is part of the model's name."""
    assert (await rig.get("/hotseat/models/org%2Fmodel")).json()["model"] == "org/model"


async def test_readiness_ends_with_the_shutdown(rig: Management) -> None:
    """/hotseat/ready is 503 as soon as hotseat is shutting down."""
    before = await rig.get("/hotseat/ready")
    rig.is_closing = True
    after = await rig.get("/hotseat/ready")

    assert before.status_code == 200
    assert after.status_code == 503
    assert "shutting down" in after.json()["error"]


async def test_readiness_ends_when_somebody_waits_far_too_long(waiting_rig: Management) -> None:
    """/hotseat/ready is 503 while a request has waited longer than ready.oldestWait."""
    waiting_rig.settings = Settings(readiness=Readiness(oldest_wait_s=0.0))
    answer = await waiting_rig.get("/hotseat/ready")

    assert answer.status_code == 503
    assert "/hotseat/queue" in answer.json()["error"]


@pytest.mark.parametrize(
    ("for_s", "says"),
    [(2.0, None), (3.0, "the guard process, which starts and stops models, has not answered for 3 s")],
)
def test_readiness_ends_when_the_guard_does_not_answer(for_s: float, says: str | None) -> None:
    """No model can be loaded or unloaded meanwhile; a second or two of it are no reason."""
    assert status.unready(View(now=0.0, models=(), queue=()), catalog(), Readiness(), {}, for_s) == says


def test_readiness_ends_when_a_server_answers_nobody() -> None:
    """The message names the model whose server does not respond."""
    reason = status.unready(View(now=0.0, models=(), queue=()), catalog(), Readiness(), {ModelName("qwen"): 16.0}, 0.0)

    assert reason == "qwen is unresponsive: its server has not responded for 16 s"


@pytest.mark.parametrize(
    ("for_s", "says"), [(79.0, None), (81.0, "qwen has been stopping for 81 s; its process does not exit")]
)
def test_readiness_ends_when_a_server_does_not_go(for_s: float, says: str | None) -> None:
    """A server that still exists 50 s after the time at which it was killed is reported."""
    stuck = ModelView(ModelName("qwen"), Phase.UNLOADING, since=0.0, upstream=None, in_flight=0, waiting=0, why="")
    configured = catalog(replace(spec("qwen"), unload_timeout_s=30.0))
    reason = status.unready(View(now=for_s, models=(stuck,), queue=()), configured, Readiness(), {}, 0.0)

    assert reason == says


async def test_readiness_ends_while_a_loop_fails_again_and_again(
    rig: Management, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/hotseat/ready and the list of models name it until it works again."""
    monkeypatch.setattr(tasks, "LEAST_PAUSE_S", 0.001)
    works = asyncio.Event()

    async def look() -> None:
        if not works.is_set():
            raise ValueError("broken")
        await asyncio.sleep(0)

    owner = tasks.Tasks()
    owner.start(tasks.forever(look, "measure memory"), "measure memory")
    await come_true(tasks.failing_loops)
    answer, listed = await rig.get("/hotseat/ready"), (await rig.get("/hotseat/models")).json()
    works.set()
    await come_true(lambda: not tasks.failing_loops())
    after = await rig.get("/hotseat/ready")
    await owner.aclose()

    assert answer.status_code == 503
    assert '"measure memory" fails again and again' in answer.json()["error"]
    assert listed["failing_loops"] == ["measure memory"]
    assert after.status_code == 200


async def test_a_reload_tells_what_it_touched(rig: Management) -> None:
    """The response lists added, changed and removed models."""
    change = CatalogChange(added=(ModelName("new"),), removed=(ModelName("dud"),))
    rig.reload_result = ReloadResult(change, ("models.new", "models.dud", "logLevel"))
    answer = await rig.client.post("/hotseat/reload")

    assert answer.json() == {
        "status": "ok",
        "message": "the configuration was reloaded",
        "added": ["new"],
        "changed": [],
        "removed": ["dud"],
        "keys": ["models.new", "models.dud", "logLevel"],
        "needs_restart": [],
    }


async def test_a_reload_of_a_wrong_file_changes_nothing_and_says_why(rig: Management) -> None:
    """A reload of an invalid file is 422 with every error and its position."""
    rig.reload_result = ReloadResult(problems=("config.yaml:5:5: models.qwen.tll: unknown key",))
    answer = await rig.client.post("/hotseat/reload")

    assert answer.status_code == 422
    assert answer.json()["status"] == "error"
    assert answer.json()["problems"] == ["config.yaml:5:5: models.qwen.tll: unknown key"]


async def test_a_reload_without_the_certificate(rig: Management) -> None:
    """It is 422 as well, and the message says that all else was reloaded."""
    rig.reload_result = ReloadResult(problems=("cannot use the certificate",), is_applied=True)
    answer = await rig.client.post("/hotseat/reload")

    assert answer.status_code == 422
    assert answer.json()["error"] == "the configuration was reloaded, but not its certificate"
    assert answer.json()["problems"] == ["cannot use the certificate"]


async def test_reading_is_no_way_to_reload(rig: Management) -> None:
    """GET /hotseat/reload is 405, because a reload has an effect."""
    assert (await rig.get("/hotseat/reload")).status_code == 405
