"""Which upstream a request reaches, over the wire."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.waiting import come_true

from hotseat.activity.usage import SHOWN
from hotseat.catalog.catalog import Policy
from hotseat.catalog.spec import BodyChanges
from hotseat.identifiers import ModelName
from hotseat.settings import Access, ApiKey, Role, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message

FILE = bytes(range(256)) * 12_000
FORM = "Content-Type: multipart/form-data; boundary=xyz"


def part(name: str, value: bytes, extra: str = "") -> bytes:
    return b'--xyz\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (
        name.encode(),
        extra.encode(),
        value,
    )


AUDIO = part("file", FILE, '; filename="a.wav"')


async def reaches(rig: RelayRig, model: str, request: bytes) -> Message:
    client = await rig.send(request)
    call = await rig.upstreams[model].call()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    return call.request


@pytest.mark.parametrize(
    "request_bytes",
    [
        chat("beta"),
        post(b'{"prompt":"x","model":"beta"}', target="/completion"),
        post(b"x", target="/v1/audio/speech?model=beta"),
        get("/slots?model=beta"),
        get("/upstream/beta/slots"),
        post(b"x", target="/upstream/beta/anything"),
        get("/upstream/beta", method="POST"),
    ],
    ids=["v1 body", "native body", "query", "query of a GET", "URL", "POST by URL", "URL alone"],
)
async def test_a_request_reaches_the_model_it_names(rig: RelayRig, request_bytes: bytes) -> None:
    """The model may be named in the body, the query or the path."""
    await reaches(rig, "beta", request_bytes)


@pytest.mark.parametrize(
    "request_bytes",
    [
        chat("beta").replace(b"/v1/chat/completions", b"/v1/chat/completions?model=alpha"),
        post(b'{"model":"beta"}', "Content-Type: application/json", target="/completion?model=nobody"),
        post(b'{"model":"beta"}', "Content-Type: application/json", target="/v1/things").replace(b"POST", b"PUT"),
        post(b'{"model":"beta"}', "Content-Type: application/json", target="/v1/things").replace(b"POST", b"PATCH"),
        post(b'{"model":"beta"}', "Content-Type: application/json", target="/v1/things").replace(b"POST", b"DELETE"),
        post(part("model", b"beta") + b"--xyz--\r\n", FORM, target="/v1/audio/transcriptions?model=alpha"),
    ],
    ids=["query", "unknown in the query", "PUT", "PATCH", "DELETE", "form"],
)
async def test_the_name_in_the_body_wins(rig: RelayRig, request_bytes: bytes) -> None:
    """The name in a JSON body or a form takes precedence over the query, with its head cached and not."""
    for _ in range(2):
        await reaches(rig, "beta", request_bytes)


@pytest.mark.parametrize("body", [b"{}", b'{"prompt":"x"}'])
async def test_a_body_without_a_name_leaves_it_to_the_query(rig: RelayRig, body: bytes) -> None:
    """If the body has no name, the query's name is used."""
    request = post(body, "Content-Type: application/json", target="/v1/chat/completions?model=beta")

    await reaches(rig, "beta", request)
    await reaches(rig, "beta", request)


@pytest.mark.parametrize("method", [b"PUT", b"PATCH"])
async def test_a_put_that_names_nobody_goes_to_the_running_model(rig: RelayRig, method: bytes) -> None:
    """PUT and PATCH without a name go to the running model, JSON or not."""
    await reaches(rig, "beta", chat("beta"))

    for body in (b"{}", b"no json"):
        request = post(body, "Content-Type: application/json", target="/v1/things").replace(b"POST", method)
        await reaches(rig, "beta", request)


async def test_a_model_in_the_url_is_cut_off(rig: RelayRig) -> None:
    """The path after the model's name is forwarded unchanged, with encoded bytes and query."""
    asked = await reaches(rig, "beta", get("/upstream/beta/a%20b/c?x=%2F&y"))

    assert asked.first_line == "GET /a%20b/c?x=%2F&y HTTP/1.1"


@pytest.mark.parametrize(
    "form",
    [part("model", b"beta") + AUDIO, AUDIO + part("model", b"beta")],
    ids=["name before the file", "name after the file"],
)
async def test_a_large_form_reaches_the_model_it_names(rig: RelayRig, form: bytes) -> None:
    """A large form arrives complete, whether the name is before or after the file."""
    asked = await reaches(rig, "beta", post(form + b"--xyz--\r\n", FORM, target="/v1/audio/transcriptions"))

    assert sha256(asked.body).digest() == sha256(form + b"--xyz--\r\n").digest()


async def test_a_large_form_can_be_changed(open_rig: OpenRig) -> None:
    """The new name is inserted between parts on disk, also if the head is cached."""
    rig = await open_rig(models=(spec("alpha"), spec("beta", changes=BodyChanges("real"))))
    form = AUDIO + part("model", b"beta") + b"--xyz--\r\n"
    asked = [await reaches(rig, "beta", post(form, FORM, target="/v1/audio/transcriptions")) for _ in range(2)]

    assert {each.body for each in asked} == {form.replace(b"\r\nbeta\r\n", b"\r\nreal\r\n")}


async def test_a_form_with_too_many_names_is_refused(rig: RelayRig) -> None:
    """A form with 17 fields called `model` gets 400."""
    answered = await rig.refusal(post(part("model", b"beta") * 17 + b"--xyz--\r\n", FORM))

    assert answered.status == 400
    assert "more than 16 fields called `model`" in answered.body.decode()


UNDECLARED = "Content-Type: application/x-www-form-urlencoded"
"""What curl sends if no type is given."""


def large_json(size: int = 2 << 20, blanks: int = 0) -> bytes:
    return b" " * blanks + b'{"prompt":"%b","model":"beta"}' % (b"x" * size)


async def test_large_json_names_its_model_though_it_does_not_say_that_it_is_json(rig: RelayRig) -> None:
    """Large JSON without a JSON content type reaches the model it names."""
    asked = await reaches(rig, "beta", post(large_json(), UNDECLARED, target="/completion"))

    assert asked.body == large_json()


@pytest.mark.parametrize("blanks", [0, 300_000])
async def test_large_json_is_changed_though_it_does_not_say_that_it_is_json(open_rig: OpenRig, blanks: int) -> None:
    """Large JSON without a JSON content type is changed by filters."""
    rig = await open_rig(models=(spec("beta", changes=BodyChanges(strip=("prompt",))),))
    asked = await reaches(rig, "beta", post(large_json(blanks=blanks), UNDECLARED, target="/upstream/beta/x"))

    assert asked.body == b'{"model":"beta"}'


@pytest.mark.parametrize("body", [large_json(17 << 20), b" " * (17 << 20)], ids=["object", "blanks"])
async def test_json_that_is_too_large_to_be_changed_must_say_so(open_rig: OpenRig, body: bytes) -> None:
    """An undeclared body that is too large to change gets 413, which names the content type to use."""
    rig = await open_rig(models=(spec("beta", changes=BodyChanges(strip=("prompt",))),))
    answered = await rig.refusal(post(body, UNDECLARED, target="/upstream/beta/x"))

    assert answered.status == 413
    assert "Content-Type: application/json" in answered.body.decode()


async def test_an_upload_too_large_to_be_read_goes_to_the_running_model(rig: RelayRig) -> None:
    """An undeclared body that is too large to read goes to the running model unchanged."""
    await reaches(rig, "beta", chat("beta"))
    body = large_json(17 << 20)

    assert (await reaches(rig, "beta", post(body, UNDECLARED, target="/x"))).body == body


async def test_a_large_upload_arrives_whole(rig: RelayRig) -> None:
    """A large upload arrives complete."""
    asked = await reaches(rig, "beta", post(FILE, target="/upload?model=beta"))

    assert sha256(asked.body).digest() == sha256(FILE).digest()


async def test_an_upload_that_does_not_fit_on_disk_is_refused(
    rig: RelayRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that cannot be stored gets 500 with the reason."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    answered = await rig.refusal(post(FILE, target="/upload?model=beta"))

    assert answered.status == 500
    assert "cannot be stored on disk" in answered.body.decode()


async def test_without_a_name_the_default_model_is_meant(open_rig: OpenRig) -> None:
    """A /v1 request without a name goes to the default model."""
    rig = await open_rig(default_model=ModelName("beta"))

    await reaches(rig, "beta", post(b"{}"))


async def test_without_a_name_the_only_model_is_meant(open_rig: OpenRig) -> None:
    """A /v1 request without a name goes to the only model."""
    rig = await open_rig(models=(spec("beta"),))

    await reaches(rig, "beta", post(b"{}"))


async def test_without_a_name_the_running_model_is_meant(rig: RelayRig) -> None:
    """Requests that need not name a model go to the running one and start none."""
    await reaches(rig, "beta", chat("beta"))

    await reaches(rig, "beta", get("/slots"))
    await reaches(rig, "beta", post(b"no json", target="/tokenize"))
    await reaches(rig, "beta", post(FILE, target="/upload"))
    await reaches(rig, "beta", get("/v1/unknown"))
    assert rig.phase("alpha") == "cold"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/slots"), 400),
        (post(b"{}", target="/completion"), 400),
        (post(b"{}"), 400),
        (post(b""), 400),
        (post(b"[]"), 400),
        (post(b'{"model":1}'), 400),
        (post(b"[" * 5000), 400),
        (chat("gamma"), 404),
        (get("/upstream/gamma/slots"), 404),
        (get("/slots?model=gamma"), 404),
    ],
)
async def test_a_request_for_nobody_starts_nobody(rig: RelayRig, request_bytes: bytes, status: int) -> None:
    """A request without a usable model name gets an error and starts no model."""
    answered = await rig.refusal(request_bytes)

    assert answered.status == status
    assert {model.phase.value for model in rig.dispatcher.views.of_all().models} == {"cold"}


async def test_the_parts_of_a_page_do_not_start_a_model(rig: RelayRig) -> None:
    """A path in upstream.ignorePaths gets 409 while the model is cold, and is served while it runs."""
    refused = await rig.refusal(get("/upstream/alpha/favicon.ico"))
    phase = rig.phase("alpha")
    await reaches(rig, "alpha", get("/upstream/alpha/index.html"))

    assert refused.status == 409
    assert "ignorePaths" in refused.body.decode()
    assert phase == "cold"
    await reaches(rig, "alpha", get("/upstream/alpha/favicon.ico"))


async def test_which_parts_of_a_page_do_not_start_a_model_can_be_chosen(open_rig: OpenRig) -> None:
    """Configured ignorePaths replace the default and do not match the query."""
    rig = await open_rig(settings=Settings(ignore_paths=("^/static/",)))

    assert (await rig.refusal(get("/upstream/alpha/static/x"))).status == 409
    await reaches(rig, "alpha", get("/upstream/alpha/favicon.ico?/static/"))


async def test_a_model_that_does_not_start_is_a_503(rig: RelayRig) -> None:
    """A failed start is a 503 with the reason, as an object for SDKs."""
    rig.launcher.broken = ("alpha",)
    plain = await rig.refusal(chat())
    sdk = await rig.refusal(chat("alpha", "X-Stainless-Lang: python"))

    assert (plain.status, sdk.status) == (503, 503)
    assert b"alpha exited with code 1" in plain.body
    assert sdk.body.startswith(b'{"error":{"message":')
    assert rig.activity.entries[0].status == 503


async def test_a_line_that_is_full_asks_to_come_again(open_rig: OpenRig) -> None:
    """A full queue is a 429 with Retry-After, and the connection stays usable."""
    rig = await open_rig(policy=Policy(max_queue=1))
    waiting = await rig.send(chat("slow"))
    await come_true(lambda: rig.waiting() == 1)
    client = await rig.send(chat("slow"))
    refused = await client.message()
    waiting.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    rig.launcher.become_ready("slow")

    assert refused.status == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert refused.all("Connection") == []


async def test_refusals_are_counted(rig: RelayRig) -> None:
    """Refusals are recorded with their code."""
    await rig.refusal(get("/slots?model=nobody"))
    await rig.refusal(get("/slots?model=alpha", "Origin: http://evil.example"))

    assert rig.activity.refusals == ["model_not_found", "forbidden"]


async def test_a_request_waits_while_its_model_loads(rig: RelayRig) -> None:
    """A request waits for the load and is then forwarded."""
    client = await rig.send(chat("slow"))
    await come_true(lambda: rig.launcher.is_starting("slow"))
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(HELLO)

    assert (await client.message()).status == 200


async def test_reads_never_wait_behind_a_generation(open_rig: OpenRig) -> None:
    """GET /slots is served while all slots are in use."""
    rig = await open_rig(models=(spec("alpha", concurrency_limit=1),))
    first, call = await rig.reached(chat())
    second = await rig.send(chat())
    await come_true(lambda: rig.waiting() == 1)
    await reaches(rig, "alpha", get("/slots"))
    await call.say(HELLO)
    await (await rig.alpha.call()).say(HELLO)

    assert (await first.message()).status == 200
    assert (await second.message()).status == 200


async def test_holders_of_keys_are_different_clients(open_rig: OpenRig) -> None:
    """Two keys from one address are two clients, shown by a short digest."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("one"), ApiKey("two"))))
    calls = [await rig.send(chat("slow", f"Authorization: Bearer {key}")) for key in ("one", "two", "two")]
    await come_true(lambda: rig.waiting() == 3)
    clients = {ticket.client for ticket in rig.dispatcher.views.current().queue}
    for client in calls:
        client.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    rig.launcher.become_ready("slow")

    assert len(clients) == 2
    assert all(client.startswith("key ") and len(client) == len("key ") + SHOWN for client in clients)


async def test_fairness_can_go_by_a_header(open_rig: OpenRig) -> None:
    """With clientHeader, the header of a trusted proxy identifies the client, or else the address."""
    rig = await open_rig(access=Access(client_header="X-User", trusted_proxies=("127.0.0.1",)))
    named = await rig.send(chat("slow", "X-User: ann"))
    unnamed = await rig.client(source="127.0.0.2")
    await unnamed.send(chat("slow", "X-User: eve"))
    await come_true(lambda: rig.waiting() == 2)
    clients = {ticket.client for ticket in rig.dispatcher.views.current().queue}
    for client in (named, unnamed):
        client.hang_up()
    await come_true(lambda: rig.waiting() == 0)
    rig.launcher.become_ready("slow")

    assert clients == {"ann", "127.0.0.2"}


@pytest.mark.parametrize(
    "fields",
    [["Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none"], ["Accept: text/html,application/xhtml+xml"]],
    ids=["a browser here", "a browser elsewhere, without https"],
)
@pytest.mark.parametrize("target", ["/", "/ui"])
async def test_a_browser_at_the_bare_address_is_led_to_the_dashboard(
    rig: RelayRig, target: str, fields: list[str]
) -> None:
    """A browser's navigation to / or /ui goes to the API even if a model runs."""
    await rig.dispatcher.operator.load(ModelName("alpha"))
    client = await rig.send(get(target, *fields))
    call = await rig.management.call()
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert call.request.first_line == f"GET {target} HTTP/1.1"


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/"),
        get("/", "Accept: */*"),
        get("/", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin", "Accept: text/html"),
        get("/about/", "Accept: text/html"),
        get("/?model=alpha", "Accept: text/html"),
        get("/", "Accept: text/html", method="POST"),
    ],
    ids=["no words", "a program", "a script", "another path", "a named model", "a POST"],
)
async def test_everybody_else_reaches_the_model_server_at_the_bare_address(rig: RelayRig, request_bytes: bytes) -> None:
    """Other requests to / and similar paths go to the running model."""
    await rig.dispatcher.operator.load(ModelName("alpha"))

    await reaches(rig, "alpha", request_bytes)


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_look_at_the_bare_address_is_no_use_of_a_model(rig: RelayRig, method: str) -> None:
    """It is forwarded without a lease: the model is not kept loaded, and no list of requests has it."""
    await rig.dispatcher.operator.load(ModelName("alpha"))
    before = used_at(rig)
    client, call = await rig.reached(get("/?x=1", method=method))
    leases, listed = rig.dispatcher.questions.requests(ModelName("alpha")), [*rig.relay.connections.in_progress()]
    await call.say(NOT_FOUND)
    answered = await client.message(to=method)

    assert call.request.first_line == f"{method} /?x=1 HTTP/1.1"
    assert (answered.status, leases, listed) == (404, 0, [])
    assert (used_at(rig), rig.activity.entries) == (before, [])
    await rig.exchange(get("/slots?model=alpha", method=method), NOT_FOUND)
    assert used_at(rig) > before
    assert [entry.status for entry in rig.activity.entries] == [404]


def used_at(rig: RelayRig) -> float:
    return next(model.last_used for model in rig.dispatcher.views.current().models if model.name == "alpha")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_look_at_the_bare_address_while_no_model_runs(rig: RelayRig, method: str) -> None:
    """The management API has a line of text for it; nothing is started."""
    client = await rig.send(get("/", method=method))
    call = await rig.management.call()
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert (await client.message(to=method)).status == 200
    assert call.request.first_line == f"{method} /idle HTTP/1.1"
    assert rig.launcher.alive == []


async def test_the_only_model_is_being_unloaded(open_rig: OpenRig) -> None:
    """Requests that neither start a model nor wait for one are refused with what happens to it, not as if none ran."""
    rig = await open_rig(models=(spec("alpha", ignore_websockets=True),))
    client, call = await rig.reached(chat("alpha"))
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.dispatcher.operator.unload(ModelName("alpha")))
        await come_true(lambda: rig.phase("alpha") == "draining")
        unnamed = await rig.refusal(get("/slots"))
        part_of_a_page = await rig.refusal(get("/upstream/alpha/favicon.ico"))
        websocket = await rig.refusal(get("/upstream/alpha/ws", "Connection: Upgrade", "Upgrade: websocket"))
        await call.say(HELLO)

    assert (await client.message()).status == 200
    assert unnamed.status == 400
    assert "the request names no model, and hotseat is unloading alpha. Name one" in unnamed.body.decode()
    for refused in (part_of_a_page, websocket):
        assert refused.status == 409
        assert "alpha is being unloaded, and" in refused.body.decode()


async def test_a_key_that_may_not_use_the_running_model_does_not_look_at_it(open_rig: OpenRig) -> None:
    """The bare address is the page of a model's server."""
    key = ApiKey("for-beta-only", Role.OPERATE, models=("beta",))
    rig = await open_rig(access=Access(api_keys=(key,)))
    await rig.dispatcher.operator.load(ModelName("alpha"))

    assert (await rig.refusal(get("/", "Authorization: Bearer for-beta-only"))).status == 403


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/"),
        get("/", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none"),
        get("/ui", "Accept: text/html"),
        get("/v1/models/alpha"),
        get("/metrics/upstreams"),
        get("/unload"),
        get("/comfyui/ws"),
    ],
)
async def test_strictly_everything_else_is_forwarded_and_a_use(open_rig: OpenRig, request_bytes: bytes) -> None:
    """With `passthrough: strict` only the contract's own paths and /hotseat/ are answered here."""
    rig = await open_rig(settings=Settings(is_strict=True), models=(spec("alpha"), spec("comfyui_auto")))
    refused = await rig.refusal(request_bytes)
    await rig.dispatcher.operator.load(ModelName("alpha"))
    asked, _ = await rig.exchange(request_bytes, NOT_FOUND)

    assert refused.status == 400
    assert asked.first_line.encode() == request_bytes.partition(b"\r\n")[0]
    assert [entry.model for entry in rig.activity.entries] == ["alpha"]


FAILED_CALLS = {
    "a role that is too low": (403, get("/upstream/alpha/load", "Authorization: Bearer may-only-infer")),
    "an expectation": (417, get("/upstream/alpha/load", "Authorization: Bearer may-do-all", "Expect: tea")),
    "a name that no URL can have": (400, get("/upstream/a%5Cb/load", "Authorization: Bearer may-do-all")),
    "the same in an unload": (400, get("/upstream/a%5Cb", "Authorization: Bearer may-do-all", method="DELETE")),
    "a foreign page": (403, get("/upstream/alpha", "Origin: https://evil.example", method="DELETE")),
    "no key": (401, get("/upstream/alpha/load/")),
    "our own API": (401, get("/hotseat/queue")),
    "a list": (401, get("/running")),
}


@pytest.mark.parametrize(("status", "request_bytes"), FAILED_CALLS.values(), ids=FAILED_CALLS.keys())
async def test_a_management_call_that_is_refused_at_its_head(
    open_rig: OpenRig, status: int, request_bytes: bytes
) -> None:
    """It has the same result as one that fails later: status, message and error."""
    keys = (ApiKey("may-only-infer", Role.INFERENCE), ApiKey("may-do-all", Role.ADMIN))
    rig = await open_rig(access=Access(api_keys=keys))
    refused = await rig.refusal(request_bytes)
    result = json.loads(refused.body)

    assert refused.status == status
    assert (result["status"], result["message"]) == ("error", result["error"])


@pytest.mark.parametrize(
    "request_bytes", [get("/slots", "Expect: tea"), get("/upstream/alpha/v1/x/load"), get("/v1/models", "Expect: tea")]
)
async def test_another_request_that_is_refused_has_an_error_only(open_rig: OpenRig, request_bytes: bytes) -> None:
    """The contract's shape for requests that are no management calls."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("may-do-all", Role.ADMIN),)))

    assert list(json.loads((await rig.refusal(request_bytes)).body)) == ["error"]
