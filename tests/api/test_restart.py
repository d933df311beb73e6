"""POST and GET /hotseat/restart: who may restart hotseat, and what it answers."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    import httpx2
    from tests.support.management import Management


async def restarted(rig: Management, *models: str) -> httpx2.Response:
    """By an administrator, whose key is for these models, or for all."""
    rig.accounts.open([ApiKey("sesame", Role.ADMIN, models=models)])
    return await rig.client.post("/hotseat/restart", headers={HELD: sha256(b"sesame").hexdigest()})


async def test_without_keys_nobody_restarts_by_a_request(rig: Management) -> None:
    """The refusal says what to do instead, and nothing was attempted."""
    refused = await rig.client.post("/hotseat/restart")

    assert (refused.status_code, refused.headers["X-Error-Code"]) == (403, "forbidden")
    assert "only be restarted on its own machine, with `hotseat restart`" in refused.json()["error"]
    assert rig.restarts.attempts == 0


async def test_an_administrator_restarts(rig: Management) -> None:
    """The answer has the process that serves from now on."""
    answer = await restarted(rig)

    assert (answer.status_code, answer.json()["message"]) == (200, "process 4187 has taken over")
    assert rig.restarts.attempts == 1


async def test_a_key_for_some_models_may_not_restart(rig: Management) -> None:
    """A restart affects all models."""
    refused = await restarted(rig, "alpha")

    assert refused.status_code == 403
    assert rig.restarts.attempts == 0


async def test_a_new_process_that_cannot_start(rig: Management) -> None:
    """The answer has its reason, and so has the state afterwards, for those who sent a signal."""
    rig.restarts.problem = "config.yaml:3:1: error: unknown key"
    failed = await restarted(rig)
    state = (await rig.get("/hotseat/restart")).json()

    assert (failed.status_code, failed.headers["X-Error-Code"]) == (503, "restart_failed")
    assert "config.yaml:3:1: error: unknown key" in failed.json()["error"]
    assert (state["pid"], state["attempts"], state["is_in_progress"]) == (3920, 1, False)
    assert state["problem"] == rig.restarts.problem


async def test_a_second_restart_at_the_same_time(rig: Management) -> None:
    """It is refused, and the first one goes on."""
    rig.restarts.is_in_progress = True
    refused = await restarted(rig)

    assert (refused.status_code, refused.headers["X-Error-Code"]) == (409, "restart_in_progress")
    assert (await rig.get("/hotseat/restart")).json()["is_in_progress"] is True


async def test_a_feed_ends_when_another_process_has_taken_over(rig: Management) -> None:
    """Its response is complete, so that its client connects again, to the new process."""
    async with rig.feed("/hotseat/events") as lines:
        await come_true(lambda: rig.journal._subscribers)
        rig.feeds_end.set()

        assert [line async for line in lines] == []
    await come_true(lambda: not rig.journal._subscribers)
