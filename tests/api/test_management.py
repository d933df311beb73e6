"""The contract's management endpoints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from tests.support.waiting import come_true

from hotseat.dispatch.tickets import OPERATOR
from hotseat.identifiers import ModelName
from hotseat.settings import ErrorFormat

if TYPE_CHECKING:
    from tests.support.management import Management

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream


async def test_nothing_runs_at_first(rig: Management) -> None:
    """After the start, /health is ok and no model runs."""
    health, running = await rig.get("/health"), await rig.get("/running")

    assert health.json() == {"status": "ok", "models": {}}
    assert running.json() == {"running": []}


async def test_a_loaded_model_is_reported_with_its_pid(rig: Management) -> None:
    """A load returns when the model is ready; /running and /health then list it, with its pid."""
    answer = await rig.get("/upstream/alpha/load")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "message": "alpha is ready"})
    assert answer.headers["cache-control"] == "no-store"
    assert (await rig.get("/running")).json() == {"running": ["alpha"]}
    assert (await rig.get("/health")).json()["models"] == {"alpha": {"status": "running", "pid": 7001}}


@pytest.mark.parametrize("name", ["org/model", "org%2Fmodel"])
async def test_a_name_with_a_slash_is_understood(rig: Management, name: str) -> None:
    """A slash in a model name may be plain or percent-encoded."""
    loaded, stopped = await rig.get(f"/upstream/{name}/load"), await rig.delete(f"/upstream/{name}")

    assert loaded.json() == {"status": "ok", "message": "org/model is ready"}
    assert stopped.json() == {"status": "ok", "message": "org/model has stopped"}


async def test_an_alias_loads_its_model(rig: Management) -> None:
    """Responses name the model, not the alias."""
    answer = await rig.get("/upstream/first/load")

    assert answer.json()["message"] == "alpha is ready"


@pytest.mark.parametrize(("method", "path"), [("GET", "/upstream/alpah/load"), ("DELETE", "/upstream/alpah")])
async def test_an_unknown_model_is_404_with_the_nearest_name(rig: Management, method: str, path: str) -> None:
    """The error suggests the nearest name."""
    answer = await rig.client.request(method, path)

    assert answer.status_code == 404
    assert answer.json()["status"] == "error"
    assert answer.json()["message"] == answer.json()["error"]
    assert 'model "alpah"' in answer.json()["error"]
    assert 'Did you mean "alpha"?' in answer.json()["error"]


async def test_a_model_that_is_not_running_cannot_be_stopped(rig: Management) -> None:
    """Stopping a model that does not run is 409 with the model's name."""
    answer = await rig.delete("/upstream/alpha")

    assert answer.status_code == 409
    assert answer.json() == {"status": "error", "message": "alpha is not running", "error": "alpha is not running"}


async def test_a_failed_load_is_503_with_its_cause(rig: Management) -> None:
    """A failed load is 503 with the cause, and x-should-retry is false."""
    answer = await rig.get("/upstream/dud/load")

    assert answer.status_code == 503
    assert answer.json()["status"] == "error"
    assert answer.json()["error"] == "dud exited with code 1"
    assert answer.headers["x-should-retry"] == "false"


async def test_a_client_that_leaves_takes_its_load_ticket_along(rig: Management) -> None:
    """A load leaves the queue when its client disconnects."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.dispatcher.views.current().queue)
        loading.cancel()

    await come_true(lambda: not rig.dispatcher.views.current().queue)


async def test_a_patient_client_gets_its_slow_load(rig: Management) -> None:
    """A load request waits until the model is ready."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.launcher.is_starting("slow"))
        before = (await rig.get("/running")).json()
        rig.launcher.become_ready("slow")

    assert before == {"running": []}
    assert loading.result().json()["message"] == "slow is ready"


class FakeWaiter:
    """Holds a lease until it is cut."""

    def __init__(self) -> None:
        self.was_cut = asyncio.Event()

    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None:
        self.was_cut.set()


async def test_force_cuts_requests_in_flight(rig: Management) -> None:
    """With force, a stop cuts the requests in flight instead of waiting for them."""
    await rig.get("/upstream/alpha/load")
    waiter = FakeWaiter()
    ticket = rig.dispatcher.ask(rig.dispatcher.catalog.resolve("alpha").name, OPERATOR, waiter)
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(rig.delete("/upstream/alpha?force=true"))
        await waiter.was_cut.wait()
        rig.dispatcher.leave(ticket)

    assert stopping.result().json()["message"] == "alpha has stopped"


async def test_a_model_that_drains_is_still_running(rig: Management) -> None:
    """While a request of a model that is being stopped lasts, /running and /health list it with its pid; / names it."""
    await rig.get("/upstream/alpha/load")
    ticket = rig.dispatcher.ask(rig.dispatcher.catalog.resolve("alpha").name, OPERATOR, FakeWaiter())
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(rig.delete("/upstream/alpha"))
        await come_true(lambda: rig.dispatcher.questions.draining_since(ModelName("alpha")) is not None)
        running, health, idle = await rig.get("/running"), await rig.get("/health"), await rig.get("/idle")
        rig.dispatcher.leave(ticket)

    assert running.json() == {"running": ["alpha"]}
    assert idle.text == "hotseat is running, and it is unloading alpha. GET /v1/models lists the models.\n"
    assert health.json()["models"] == {"alpha": {"status": "running", "pid": 7001}}
    assert stopping.result().status_code == 200
    assert (await rig.get("/running")).json() == {"running": []}


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/upstream/slow"), ("GET", "/unload")])
async def test_a_model_that_is_only_waited_for_is_stopped(rig: Management, method: str, path: str) -> None:
    """Its queue is refused, as while it loads, and nothing loads it afterwards."""
    await rig.get("/upstream/alpha/load")
    ticket = rig.dispatcher.ask(rig.dispatcher.catalog.resolve("alpha").name, OPERATOR, FakeWaiter())
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.dispatcher.views.current().queue)
        stopping = group.create_task(rig.client.request(method, path))
        await come_true(loading.done)
        rig.dispatcher.leave(ticket)

    why = "slow was stopped by an operator while this request was waiting for it. Try again to load it."
    assert (loading.result().status_code, loading.result().json()["error"]) == (503, why)
    assert stopping.result().status_code == 200
    assert not rig.launcher.is_starting("slow")


async def test_a_body_with_thousands_of_mistakes_is_answered_with_a_few(rig: Management) -> None:
    """The first ten, and how many there are: the response is not many times as long as the request."""
    wrong = {f"member {n}": 1 for n in range(2000)}
    answer = await rig.client.put("/hotseat/models/alpha/overrides", json=wrong)

    assert answer.status_code == 400
    assert answer.json()["message"].startswith("member 0: Extra inputs are not permitted; member 1: ")
    assert answer.json()["message"].endswith("; and 1990 more")


async def test_the_first_wrong_name_of_a_list_ends_it(rig: Management) -> None:
    """The same for the names of a key's models: the others are not looked at."""
    answer = await rig.client.post("/hotseat/keys/x", json={"models": [1] * 900})

    assert (answer.status_code, answer.json()["message"]) == (400, "models: Input should be a valid string")


async def test_a_misspelt_query_is_400_in_one_sentence(rig: Management) -> None:
    """An invalid query parameter is 400, and the error names the parameter."""
    answer = await rig.delete("/upstream/alpha?force=perhaps")

    assert answer.status_code == 400
    assert answer.json()["error"].startswith("force: ")


async def test_an_unknown_path_is_404_in_our_shape(rig: Management) -> None:
    """An unknown path under /hotseat/ is 404 in hotseat's own error format."""
    answer = await rig.get("/hotseat/nowhere")

    assert answer.status_code == 404
    assert answer.json()["error"].startswith("GET /hotseat/nowhere: Not Found.")


async def test_metrics_can_be_switched_off(rig: Management) -> None:
    """With `metrics: false`, also after a reload, /metrics is 404 and names the setting."""
    shown = await rig.get("/metrics")
    rig.settings = structs.replace(rig.settings, metrics=False)
    hidden = await rig.get("/metrics")

    assert shown.status_code == 200
    assert shown.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"hotseat_build_info" in shown.content
    assert hidden.status_code == 404
    assert "metrics: false" in hidden.json()["error"]


@pytest.mark.parametrize(
    "path",
    ["/health", "/running", "/v1/models", "/metrics", "/metrics/upstreams", "/swagger", "/hotseat/ready"],
)
async def test_head_is_answered_wherever_get_is(rig: Management, path: str) -> None:
    """HEAD returns 200 without a body wherever GET returns 200."""
    answer = await rig.client.head(path)

    assert (answer.status_code, answer.content) == (200, b"")


async def test_head_of_a_load_starts_nothing(rig: Management) -> None:
    """HEAD of a load is 405 and loads nothing."""
    answer = await rig.client.head("/upstream/alpha/load")

    assert answer.status_code == 405
    assert rig.journal.n == 0


async def test_sdk_callers_get_their_error_shape_under_v1_only(rig: Management) -> None:
    """SDKs get an error object under /v1, unless errorFormat is text; management errors are strings."""
    sdk = {"x-stainless-lang": "python"}
    plain, spoken = await rig.get("/v1/models/nobody"), await rig.get("/v1/models/nobody", headers=sdk)
    managing = await rig.get("/upstream/nobody/load", headers=sdk)
    rig.settings = structs.replace(rig.settings, error_format=ErrorFormat.TEXT)
    pinned = await rig.get("/v1/models/nobody", headers=sdk)

    assert isinstance(plain.json()["error"], str)
    assert spoken.json()["error"]["code"] == "model_not_found"
    assert isinstance(managing.json()["error"], str)
    assert isinstance(pinned.json()["error"], str)


async def test_a_failure_inside_hotseat_is_answered_500_with_the_usual_headers(
    rig: Management, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An internal error is 500 with `nosniff` and `no-store`."""
    monkeypatch.setattr(rig.dispatcher, "views", None)
    answer = await rig.get("/running")

    assert (answer.status_code, answer.json()["status"]) == (500, "error")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
