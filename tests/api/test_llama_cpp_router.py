"""The API of llama.cpp's router. A journey compares it with a real one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.management import Management, management
from tests.support.server_events import next_event
from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.api.llama_cpp_models import Change, StateChanges
from hotseat.api.routes.llama_cpp import asked
from hotseat.catalog.named_models import FleetModel, RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, Capabilities, LaunchRecipe, ModelSpec
from hotseat.dispatch.journal import BEHIND
from hotseat.dispatch.tickets import OPERATOR
from hotseat.identifiers import Address, ModelName
from hotseat.settings import ApiKey, Role
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx2
    from fastapi import Response

ALPHA, SLOW = ModelName("alpha"), ModelName("slow")
FOR_ALPHA = {HELD: sha256(b"some").hexdigest()}


async def post(rig: Management, path: str, model: str, **headers: str) -> httpx2.Response:
    return await rig.client.post(path, json={"model": model}, headers=headers)


async def state(rig: Management, model: str) -> dict[str, Any]:
    listed = (await rig.get("/models")).json()["data"]
    return next(entry["status"] for entry in listed if entry["id"] == model)


def with_keys(rig: Management) -> None:
    rig.accounts.open([ApiKey("some", Role.OPERATE, models=("alpha",))])


async def next_change(lines: AsyncIterator[str]) -> dict[str, Any]:
    """The next event that is not a comment."""
    while "data" not in (event := await next_event(lines)):
        pass
    change: dict[str, Any] = json.loads(event["data"])
    return change


async def test_models_are_listed_as_the_router_lists_them(rig: Management) -> None:
    """Each model has an id, aliases, a state and modalities; unlisted models are missing."""
    answer = (await rig.get("/models")).json()

    assert answer["object"] == "list"
    assert [entry["id"] for entry in answer["data"]] == ["alpha", "org/model", "slow", "dud"]
    assert answer["data"][0] == {
        "id": "alpha",
        "aliases": ["first", "al"],
        "tags": [],
        "object": "model",
        "owned_by": "llamacpp",
        "created": 1_700_000_000,
        "status": {"value": "unloaded", "args": [], "preset": ""},
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "source": "preset",
        "can_remove": False,
    }


async def test_a_load_is_answered_when_it_has_begun(rig: Management) -> None:
    """The answer does not wait for the model; the list then says loading, and loaded when it is ready."""
    answer = await post(rig, "/models/load", "slow")
    began = await state(rig, "slow")
    await come_true(lambda: rig.launcher.is_starting("slow"))
    rig.launcher.become_ready("slow")
    await come_true(lambda: rig.dispatcher.questions.is_running(SLOW))

    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert began["value"] == "loading"
    assert (await state(rig, "slow"))["value"] == "loaded"


async def test_a_model_that_waits_for_its_turn_counts_as_loading(rig: Management) -> None:
    """It is not loaded twice, and its ticket stays although the client has its answer."""
    await post(rig, "/models/load", "slow")
    await come_true(lambda: rig.launcher.is_starting("slow"))
    waiting = await post(rig, "/models/load", "alpha")
    again = await post(rig, "/models/load", "alpha")

    assert waiting.json() == {"success": True}
    assert (await state(rig, "alpha"))["value"] == "loading"
    assert again.status_code == 400
    assert [ticket.model for ticket in rig.dispatcher.views.current().queue].count(ALPHA) == 1


async def test_an_unload_is_answered_when_it_has_begun(rig: Management) -> None:
    """A model in use drains first, and its requests finish."""
    await rig.get("/upstream/alpha/load")
    ticket = rig.dispatcher.ask(ALPHA, OPERATOR, Holder())
    answer = await post(rig, "/models/unload", "first")
    during = await state(rig, "alpha")
    rig.dispatcher.leave(ticket)
    await come_true(lambda: "alpha" not in rig.launcher.alive)

    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert during["value"] == "unloaded"


class Holder:
    """Holds a lease."""

    def granted(self, upstream: object, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: Exception) -> None: ...
    def cut(self, error: Exception) -> None: ...


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/models/load", b'{"model": "alpah"}', 404, "not_found_error"),
        ("/models/unload", b'{"model": "alpah"}', 400, "invalid_request_error"),
        ("/models/unload", b'{"model": "alpha"}', 400, "invalid_request_error"),
        ("/models/load", b"{}", 400, "invalid_request_error"),
        ("/models/load", b"not json", 400, "invalid_request_error"),
        ("/models/load", b"[1]", 400, "invalid_request_error"),
        ("/models/load", b"[" * 60_000, 400, "invalid_request_error"),
        ("/models/load", b"[" * 2_000_000, 400, "invalid_request_error"),
        ("/models", b'{"model": "org/repo"}', 400, "invalid_request_error"),
    ],
)
async def test_errors_have_the_routers_form(rig: Management, path: str, body: bytes, status: int, kind: str) -> None:
    """The error is an object with the status as its code, a message and a type."""
    answer = await rig.client.post(path, content=body)
    error = answer.json()["error"]

    assert answer.status_code == error["code"] == status
    assert error["type"] == kind
    assert error["message"]


async def test_the_type_of_the_body_does_not_matter(rig: Management) -> None:
    """As with the router: `curl -d` declares JSON to be a form."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await rig.client.post("/models/load", content=b'{"model": "alpha", "extra": 1}', headers=headers)

    assert answer.json() == {"success": True}


async def test_a_failed_load_is_shown_in_the_list_and_the_feed(rig: Management) -> None:
    """The state is unloaded with `failed`, and the feed says so with an exit code."""
    async with rig.feed("/models/sse") as lines:
        await next_event(lines)
        await post(rig, "/models/load", "dud")
        while (change := await next_change(lines))["data"]["status"] != "unloaded":
            pass

    assert change == {"model": "dud", "event": "status_change", "data": {"status": "unloaded", "exit_code": 1}}
    assert (await state(rig, "dud")).items() >= {"value": "unloaded", "failed": True, "exit_code": 1}.items()


async def test_the_feed_tells_each_change_once(rig: Management) -> None:
    """A load, its progress and an unload are events with the router's names."""
    async with rig.feed("/models/sse") as lines:
        await next_event(lines)
        await post(rig, "/models/load", "slow")
        begun = await next_change(lines)
        rig.shares_read["slow"] = 0.25
        progress = await next_change(lines)
        rig.launcher.become_ready("slow")
        loaded = await next_change(lines)
        await post(rig, "/models/unload", "slow")
        gone = await next_change(lines)

    assert begun == {"model": "slow", "event": "model_status", "data": {"status": "loading"}}
    assert progress["data"] == {
        "status": "loading",
        "progress": {"stages": ["text_model"], "current": "text_model", "value": 0.25},
    }
    assert loaded["event"] == "status_change"
    assert (loaded["data"]["status"], loaded["data"]["info"]["id"]) == ("loaded", "slow")
    assert gone["data"] == {"status": "unloaded", "exit_code": 0}


async def test_all_feeds_share_the_work(rig: Management) -> None:
    """Each change is made once and reaches all of them; nothing is made when the last one has ended."""
    async with rig.feed("/models/sse") as one, rig.feed("/models/sse") as other:
        await next_event(one)
        await next_event(other)
        makers = len(rig.journal._subscribers)
        await post(rig, "/models/load", "slow")
        changes = [await next_change(one), await next_change(other)]

    assert makers == 1
    assert [change["data"] for change in changes] == [{"status": "loading"}] * 2
    await come_true(lambda: not rig.journal._subscribers)


async def test_a_feed_that_nobody_reads_ends(rig: Management) -> None:
    """It has a bounded number of changes, and its client connects again."""
    tasks = Tasks()
    deps: Any = SimpleNamespace(dispatcher=rig.dispatcher, journal=rig.journal, tasks=tasks)
    changes = StateChanges(deps)
    feed = changes.follow(None)
    first = tasks.start(anext(feed), "read one change")
    await come_true(lambda: changes._followers)
    await changes._tell(Change(ALPHA, "0"))
    read = [await first]
    for number in range(1, BEHIND + 2):
        await changes._tell(Change(ALPHA, f"{number}"))
    read += [text async for text in feed]
    await tasks.aclose()

    assert read == ["0"]


async def test_a_feed_of_a_key_has_no_progress_of_other_models(rig: Management) -> None:
    """Also not of a model that was loading already when the feed began."""
    with_keys(rig)
    await post(rig, "/models/load", "slow")
    async with rig.feed("/models/sse", headers=FOR_ALPHA) as lines, rig.feed("/models/sse") as others:
        await next_event(lines)
        await next_event(others)
        rig.shares_read["slow"] = 0.25
        progress = await next_change(others)
        await post(rig, "/models/load", "alpha", **FOR_ALPHA)
        change = await next_change(lines)

    assert (progress["model"], change["model"]) == ("slow", "alpha")


async def test_a_key_for_some_models_sees_and_loads_only_those(rig: Management) -> None:
    """List, feed, load, unload and properties are limited to the models of the key."""
    with_keys(rig)
    listed = (await rig.get("/models", headers=FOR_ALPHA)).json()["data"]
    refused = [await post(rig, path, "dud", **FOR_ALPHA) for path in ("/models/load", "/models/unload")]
    props = await rig.get("/props?model=dud&autoload=false", headers=FOR_ALPHA)
    async with rig.feed("/models/sse", headers=FOR_ALPHA) as lines:
        await next_event(lines)
        await rig.get("/upstream/org/model/load")
        await rig.delete("/upstream/org/model")
        await post(rig, "/models/load", "alpha", **FOR_ALPHA)
        change = await next_change(lines)

    assert [entry["id"] for entry in listed] == ["alpha"]
    assert [answer.status_code for answer in (*refused, props)] == [403, 403, 403]
    assert refused[0].json()["error"]["type"] == "permission_error"
    assert change["model"] == "alpha"


@pytest.mark.parametrize("name", ["best", "far", "there"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/models/load"),
        ("POST", "/models/unload"),
        ("GET", "/props?autoload=false&model={}"),
        ("POST", "/api/models/unload/{}"),
        ("PUT", "/hotseat/models/{}/overrides"),
    ],
)
async def test_a_key_learns_nothing_of_what_does_not_run_here(
    tmp_path: Path, method: str, path: str, name: str
) -> None:
    """A selector, a peer's model and another host's model are refused because the key is not for them."""
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    models = replace(
        catalog(spec("alpha"), spec("beta")),
        selectors={"best": Selector("best", Strategy.PIN, ("beta",))},
        remotes={"far": far, "box/far": far},
        fleet_models={"there": FleetModel(ModelName("there"))},
    )
    body = {"model": name} if method == "POST" else {"pinned": True}
    async with management(tmp_path / "socket", models) as rig:
        with_keys(rig)
        refused = await rig.client.request(method, path.format(name), json=body, headers=FOR_ALPHA)

    assert refused.status_code == 403
    assert "may not use the model" in refused.text


async def test_of_command_lines_only_the_context_is_shown(tmp_path: Path) -> None:
    """Clients take the context of a cold model from there; paths and secrets would be readable by pages and keys."""
    argv = ("serve", "-m", "/home/me/m.gguf", "--api-key", "hush", "-c", "512", "--ctx-size")
    recipe = LaunchRecipe(argv, "http://127.0.0.1:${PORT}")
    model = ModelSpec(ALPHA, recipe, capabilities=Capabilities(takes=("text", "image"), context=256))
    async with management(tmp_path / "socket", catalog(model), FakeLauncher()) as rig:
        listed = (await rig.get("/models")).json()["data"][0]

    assert listed["status"]["args"] == ["--ctx-size", "512"]
    assert listed["architecture"]["input_modalities"] == ["text", "image"]
    assert listed["meta"] == {"n_ctx": 256}


async def test_props_say_that_this_is_a_router(rig: Management) -> None:
    """Clients look for the role before they load and unload models."""
    props = (await rig.get("/props?autoload=false")).json()

    assert (props["role"], props["models_autoload"]) == ("router", True)


async def test_props_of_a_model_start_nothing(rig: Management) -> None:
    """The errors are those by which clients tell the state of a model."""
    cold = await rig.get("/props?model=slow&autoload=false")
    await post(rig, "/models/load", "slow")
    loading = await rig.get("/props?model=slow&autoload=false")
    unknown = await rig.get("/props?model=nobody&autoload=false")

    assert (cold.status_code, cold.json()["error"]["message"]) == (400, "model is not loaded")
    assert (loading.status_code, loading.json()["error"]["type"]) == (503, "unavailable_error")
    assert unknown.status_code == 400


@pytest.mark.parametrize("body", [b'{ "a" :[1.50]}', b"[" + b'{"":0},' * 100_000 + b"0]"], ids=("short", "long"))
async def test_props_of_a_running_model_are_its_servers_own(body: bytes) -> None:
    """Byte for byte, because making its values again could take longer than others may wait."""
    answer = await props_from(b"HTTP/1.1 200 OK\r\n", body)

    assert (answer.status_code, answer.body, answer.media_type) == (200, body, "application/json")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (b"200", b"<p>"), (b"200", b""), (b"200", b"NaN"), (b"200", b'"\xff"'), (b"200", b"[" * 100_000),
        (b"999", b"{}"), (b"20", b"{}"), (b"-5", b"{}"), (b"204", b"{}"), (b"304", b"{}"),
    ],
    ids=range(10),
)  # fmt: skip
async def test_props_that_are_not_json_over_http_are_an_error(status: bytes, body: bytes) -> None:
    """A page of the server would have hotseat's rights, and nobody can send on a status that HTTP does not have."""
    assert (await props_from(b"HTTP/1.1 %b x\r\n" % status, body)).status_code == 502


async def props_from(line: bytes, body: bytes) -> Response:
    """What the route makes of a server's answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(line + b"\r\n" + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        return await asked(Address(*server.sockets[0].getsockname()), None)


async def test_loads_end_when_hotseat_does(tmp_path: Path) -> None:
    """A load that nobody waits for leaves no ticket and no task behind."""
    async with management(tmp_path / "socket", catalog(spec("slow")), FakeLauncher(slow=("slow",))) as rig:
        await post(rig, "/models/load", "slow")
        await come_true(lambda: rig.launcher.is_starting("slow"))

    assert rig.launcher.alive == []
    assert not rig.dispatcher.views.current().queue
