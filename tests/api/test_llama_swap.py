"""llama-swap's API."""

from __future__ import annotations

import asyncio
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.management import application
from tests.support.server_events import next_event
from tests.support.waiting import come_true

from hotseat.activity.recent import InProgress, Tokens
from hotseat.activity.usage import HELD
from hotseat.api.routes.llama_swap import News
from hotseat.dispatch.journal import Gap
from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.relay.routing.model_name import find_destination
from hotseat.relay.routing.other_apis import LLAMA_SWAP
from hotseat.scheduling.events import CatalogChanged
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.management import Management

ALPHA = ModelName("alpha")
PAGE = Path(__file__).parents[2] / "docs/howto/from-llama-swap.md"
GAP = re.compile(r"\{(\w+)\}")


async def load(rig: Management, *models: str) -> None:
    for model in models:
        await rig.get(f"/upstream/{model}/load")


class Asked:
    method = b"POST"
    target = b"/v1/chat/completions?key=hush"


def finish(rig: Management, model: str, status: int = 200, cached: int | None = None) -> None:
    tokens = Tokens(11, 7, 35.0, cached)
    rig.activity.finished(ModelName(model), status, 0.5, 0.6, 1.25, ClientId("ann"), Asked(), b"id", tokens)


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [("GET", "/unload", "OK"), ("POST", "/api/models/unload", '{"msg":"ok"}')],
)
async def test_all_models_are_stopped(rig: Management, method: str, path: str, text: str) -> None:
    """The answer comes when no model runs, also if none did."""
    await load(rig, "alpha")
    answers = [await rig.client.request(method, path) for _ in range(2)]

    assert [(answer.status_code, answer.text) for answer in answers] == [(200, text)] * 2
    assert rig.launcher.alive == []


async def test_a_loading_model_is_stopped_too(rig: Management) -> None:
    """Nothing that takes memory is left."""
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.launcher.is_starting("slow"))
        await rig.client.post("/api/models/unload")

    assert rig.launcher.alive == []


@pytest.mark.parametrize("model", ["org/model", "org%2Fmodel"])
async def test_one_model_is_stopped(rig: Management, model: str) -> None:
    """A model that does not run is no error, an unknown one is."""
    await load(rig, "org/model")
    stopped, again = [await rig.client.post(f"/api/models/unload/{model}") for _ in range(2)]
    unknown = await rig.client.post("/api/models/unload/nobody")

    assert (stopped.text, again.text) == ("OK", "OK")
    assert rig.launcher.alive == []
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"},
    ],
)
async def test_a_browser_cannot_stop_models_with_get(rig: Management, headers: dict[str, str]) -> None:
    """Any page can lead a browser to an address; over plain HTTP it does not even say which page did."""
    await load(rig, "alpha")
    answer = await rig.get("/unload", headers=headers)

    assert answer.status_code == 403
    assert "dashboard" in answer.json()["error"]
    assert rig.launcher.alive == ["alpha"]


async def test_head_of_unload_stops_nothing(rig: Management) -> None:
    """HEAD is 405."""
    await load(rig, "alpha")

    assert (await rig.client.head("/unload")).status_code == 405
    assert rig.launcher.alive == ["alpha"]


async def test_a_key_for_some_models_stops_only_those(rig: Management) -> None:
    """Stopping all models needs a key for all models."""
    rig.accounts.open([ApiKey("sesame", Role.OPERATE, models=("alpha",))])
    headers = {HELD: sha256(b"sesame").hexdigest()}
    await load(rig, "alpha")
    refused = [
        await rig.client.request(method, path, headers=headers)
        for method, path in (
            ("GET", "/unload"),
            ("POST", "/api/models/unload"),
            ("POST", "/api/models/unload/dud"),
        )
    ]
    allowed = await rig.client.post("/api/models/unload/alpha", headers=headers)

    assert [answer.status_code for answer in refused] == [403, 403, 403]
    assert allowed.text == "OK"


async def test_logs_are_plain_text(rig: Management) -> None:
    """All sources in the order of time; a browser is led to the dashboard."""
    rig.logs.write_own("info", "started")
    rig.logs.write("alpha", "loading")
    text, page = await rig.get("/logs"), await rig.get("/logs", headers={"Accept": "text/html,*/*"})

    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.splitlines() == [
        "2026-11-16T12:00:00.000Z hotseat | INFO started",
        "2026-11-16T12:00:01.000Z alpha | loading",
    ]
    assert (page.status_code, page.headers["location"]) == (307, "hotseat/ui/#/logs")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/logs/stream", ["own", "of alpha", "new own", "new of alpha"]),
        ("/logs/stream/proxy", ["own", "new own"]),
        ("/logs/stream/upstream", ["of alpha", "new of alpha"]),
        ("/logs/stream/al", ["of alpha", "new of alpha"]),
        ("/logs/stream/alpha?no-history", ["new of alpha"]),
    ],
)
async def test_logs_are_followed_as_text(rig: Management, path: str, shown: list[str]) -> None:
    """First the past, unless it is not wanted, then what is new."""
    rig.logs.write_own("info", "own")
    rig.logs.write("alpha", "of alpha")
    async with rig.feed(path) as lines:
        await come_true(lambda: any(source.readers for source in rig.logs.all()))
        rig.logs.write_own("info", "new own")
        rig.logs.write("alpha", "new of alpha")
        seen = [(await anext(lines)).rpartition("| ")[2].removeprefix("INFO ") for _ in shown]

    assert seen == shown


async def test_the_stream_of_an_unknown_source_is_404(rig: Management) -> None:
    """The name is a model, `proxy` or `upstream`."""
    assert (await rig.get("/logs/stream/nobody")).status_code == 404


async def said(lines: AsyncIterator[str], kind: str) -> Any:
    """The data of the next message of a type."""
    while True:
        event = await next_event(lines)
        if "data" in event and (message := json.loads(event["data"]))["type"] == kind:
            assert event["event"] == "message"
            return json.loads(message["data"])


async def test_events_begin_with_the_present(rig: Management) -> None:
    """Each line of both logs, all models with their state, finished requests, the number of those in progress."""
    rig.logs.write_own("info", "started")
    rig.logs.write("alpha", "loading")
    rig.logs.write("alpha", "ready")
    finish(rig, "alpha")
    async with rig.feed("/api/events") as lines:
        own, upstream, last = [await said(lines, "logData") for _ in range(3)]
        models = await said(lines, "modelStatus")
        metrics, in_flight = await said(lines, "metrics"), await said(lines, "inflight")

    assert own == {"source": "proxy", "data": "2026-11-16T12:00:00.000Z hotseat | INFO started\n"}
    assert upstream == {"source": "upstream", "data": "2026-11-16T12:00:01.000Z alpha | loading\n"}
    assert last == {"source": "upstream", "data": "2026-11-16T12:00:02.000Z alpha | ready\n"}
    assert models[0] == {
        "id": "alpha",
        "name": "Alpha",
        "description": "A small one",
        "state": "stopped",
        "unlisted": False,
        "peerID": "",
        "aliases": ["first", "al"],
    }
    assert [model["id"] for model in models] == ["alpha", "org/model", "hidden", "slow", "dud"]
    assert metrics[0]["model"] == "alpha"
    assert in_flight == {"total": 0}


async def test_events_follow_models_logs_and_requests(rig: Management) -> None:
    """Each state of a model that loads and stops is reported, and so are log lines and requests."""
    async with rig.feed("/api/events") as lines:
        await said(lines, "inflight")
        await rig.client.post("/models/load", json={"model": "slow"})
        starting = await said(lines, "modelStatus")
        await come_true(lambda: rig.launcher.is_starting("slow"))
        rig.launcher.become_ready("slow")
        ready = await said(lines, "modelStatus")
        rig.logs.write_own("info", "hello")
        line = await said(lines, "logData")
        finish(rig, "alpha")
        rig.in_progress.append(
            InProgress(TicketId(1), b"id", ALPHA, ClientId("ann"), b"POST", b"/v1/chat/completions", 0, None, 1, True)
        )
        metrics, activity = await said(lines, "metrics"), await said(lines, "activity")
        in_flight = await said(lines, "inflight")

    states = [{model["id"]: model["state"] for model in models}["slow"] for models in (starting, ready)]
    assert states == ["starting", "ready"]
    assert line["data"].endswith("INFO hello\n")
    assert [row["id"] for row in metrics] == [activity["id"]]
    assert in_flight == {"total": 1}


async def test_a_feed_describes_models_again_only_if_one_changed(
    rig: Management, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has several entries per request, and there may be thousands of models."""
    await load(rig, "alpha")
    news = News(application(rig).state.deps)
    first = [message async for message in news.first()]
    with monkeypatch.context() as patched:
        patched.setattr("hotseat.api.routes.llama_swap.swap_models", None)
        unchanged = [message async for message in news.after(Gap(1))]
    await rig.delete("/upstream/alpha")

    assert len(first) == 2
    assert unchanged == []
    assert ["modelStatus" in message async for message in news.after(Gap(2))] == [True]
    assert [message async for message in news.after(Gap(3))] == []


async def test_a_feed_follows_the_configuration(rig: Management) -> None:
    """A model that a reload adds is reported, although none has changed its state."""
    async with rig.feed("/api/events") as lines:
        await said(lines, "inflight")
        rig.dispatcher.tell(CatalogChanged(catalog(spec("alpha"), spec("new"))))
        models = await said(lines, "modelStatus")

    assert [(model["id"], model["state"]) for model in models] == [("alpha", "stopped"), ("new", "stopped")]


async def test_requests_are_listed_with_llama_swaps_fields(rig: Management) -> None:
    """Without the query, which may contain keys; what is not known is -1."""
    finish(rig, "alpha")
    (row,) = (await rig.get("/api/metrics")).json()

    assert row.pop("timestamp")
    assert row == {
        "id": 1,
        "src": "ann",
        "model": "alpha",
        "req_path": "/v1/chat/completions",
        "resp_content_type": "",
        "resp_status_code": 200,
        "tokens": {
            "cache_tokens": -1,
            "draft_tokens": 0,
            "draft_acc_tokens": 0,
            "input_tokens": 11,
            "output_tokens": 7,
            "prompt_per_second": -1.0,
            "tokens_per_second": 35.0,
        },
        "duration_ms": 1250,
        "has_capture": False,
    }


async def test_cached_tokens_have_llama_swaps_name(rig: Management) -> None:
    """Zero is a number that the server reports, not an unknown one."""
    for cached in (9, 0, None):
        finish(rig, "alpha", cached=cached)

    assert [row["tokens"]["cache_tokens"] for row in (await rig.get("/api/metrics")).json()] == [9, 0, -1]


async def test_requests_come_in_pages(rig: Management) -> None:
    """The newest first, of one model if it is named."""
    for model in ("alpha", "dud", "alpha", "alpha"):
        finish(rig, model)
    page = (await rig.get("/api/metrics/activity?model=alpha&limit=2&page=2")).json()
    first = (await rig.get("/api/metrics/activity")).json()

    assert [row["id"] for row in page.pop("data")] == [1]
    assert page == {"page": 2, "limit": 2, "total": 3, "total_pages": 2}
    assert [row["id"] for row in first["data"]] == [4, 3, 2, 1]
    assert (await rig.get("/api/metrics/activity?limit=1000")).status_code == 400


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/ui", "hotseat/ui/"),
        ("/ui/", "../hotseat/ui/"),
        ("/ui/logs", "../hotseat/ui/#/logs"),
        ("/ui/somewhere/else", "../../hotseat/ui/"),
        ("/upstream", "hotseat/ui/#/models"),
    ],
)
async def test_llama_swaps_pages_lead_to_the_dashboard(rig: Management, path: str, to: str) -> None:
    """The address is relative, because a reverse proxy may add a path prefix."""
    answer = await rig.get(path)

    assert (answer.status_code, answer.headers["location"]) == (307, to)


def documented() -> list[tuple[str, str, str]]:
    """Method, path and role of each row of the table."""
    section = PAGE.read_text().partition("## llama-swap's routes")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+) (\S+)` \| .* \| (\w+) \|$", section, re.MULTILINE)


@pytest.mark.parametrize(("method", "path", "role"), documented())
async def test_each_documented_route_is_answered(rig: Management, method: str, path: str, role: str) -> None:
    """Its role is as documented, and hotseat answers it, or forwards it without its prefix."""
    target = GAP.sub(lambda gap: {"ticket": "1"}.get(gap[1], "alpha"), path)
    destination = find_destination(method.encode(), target.encode(), rig.dispatcher.catalog)

    assert destination.rule.role is Role(role)
    if path.startswith("/v/"):
        assert destination.target == target.removeprefix("/v").encode()
        return
    async with rig.client.stream(method, target) as answer:
        assert "See /swagger" not in (await anext(answer.aiter_text(), "") if answer.status_code == 404 else "")
        assert answer.status_code in (200, 307) or "{ticket}" in path


def test_every_route_is_documented() -> None:
    """The table of the page and the table of the code have the same rows."""
    shown = {(method.encode(), GAP.sub("*", path).encode()) for method, path, _ in documented()}

    assert shown == {*LLAMA_SWAP, (b"POST", b"/v/chat/completions")}
