"""Requests of Ollama's API, through a running relay: model servers get OpenAI's, clients get Ollama's."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.early_streams import waiting_client
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chunked, get, post, turns
from tests.support.scripted_upstream import on_a_port
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.catalog.named_models import RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, LoadingState
from hotseat.identifiers import ModelName
from hotseat.relay.downstream import limits
from hotseat.relay.exchange import response_translation
from hotseat.scheduling.events import KeepAliveChanged
from hotseat.settings import Access, ApiKey, Budget, Role, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message

    from hotseat.scheduling.events import Event

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = b'data: {"choices":[{"delta":{"content":"one"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = EVENTS + chunked(FIRST, LAST)
ALPHA, BETA = spec("alpha"), spec("beta")


def ask(path: str = "/api/chat", *fields: str, version: str = "1.1", model: str = "alpha", **members: Any) -> bytes:
    body = json.dumps({"model": model, **(members or HI)}).encode()
    return post(body, "Content-Type: application/json", *fields, target=path, version=version)


def whole(**members: Any) -> dict[str, Any]:
    return {**HI, "stream": False, **members}


def answer(body: bytes, status: int = 200, *fields: bytes) -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 %d x" % status, b"Content-Type: application/json", *fields])
    return head + b"\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


COMPLETION = answer(b'{"choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}')


def lines(message: Message) -> list[dict[str, Any]]:
    return [json.loads(line) for line in message.body.splitlines()]


# Requests


async def test_a_chat_is_a_chat_of_openais_api(rig: RelayRig) -> None:
    """The server gets its own path, JSON whatever the client called it, and no wish for compression."""
    body = json.dumps({"model": "alpha:latest", **HI}).encode()
    fields = ("Content-Type: application/x-www-form-urlencoded", "Accept-Encoding: gzip", "X-Mine: kept")

    request, got = await rig.exchange(post(body, *fields, target="/api/chat"), STREAM)

    assert request.first_line == "POST /v1/chat/completions HTTP/1.1"
    assert json.loads(request.body) == {
        "model": "alpha",
        **HI,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (request["content-type"], request["x-mine"]) == ("application/json", "kept")
    assert "accept-encoding" not in request.names
    assert lines(got)[0]["model"] == "alpha:latest"


@pytest.mark.parametrize(
    ("path", "members", "target"),
    [
        ("/api/generate", {"prompt": "hi"}, "/v1/chat/completions"),
        ("/api/generate", {"prompt": "hi", "raw": True}, "/v1/completions"),
        ("/api/generate", {"prompt": "hi", "suffix": "ho"}, "/infill"),
        ("/api/chat/", HI, "/v1/chat/completions"),
        ("/api/chat?x=1", HI, "/v1/chat/completions"),
    ],
)
async def test_where_requests_go(rig: RelayRig, path: str, members: dict[str, Any], target: str) -> None:
    """The path of a prompt depends on its body."""
    request, got = await rig.exchange(ask(path, **members), STREAM)

    assert request.first_line == f"POST {target} HTTP/1.1"
    assert got.status == 200


async def test_the_same_head_with_another_path(rig: RelayRig) -> None:
    """What was remembered for one request is not sent for the next one."""
    targets = []
    for is_raw in (False, True, False):
        request, _ = await rig.exchange(ask("/api/generate", prompt="hi", raw=is_raw), STREAM)
        targets.append(request.first_line.split(" ")[1])

    assert targets == ["/v1/chat/completions", "/v1/completions", "/v1/chat/completions"]


async def test_changes_of_the_model_apply_to_what_the_server_gets(open_rig: OpenRig) -> None:
    """`useModelName` and `filters` see OpenAI's request."""
    changes = BodyChanges(model_name="weights", strip=("stream_options",), set={"max_tokens": 7})
    rig = await open_rig(models=(spec("alpha", changes=changes), BETA))

    request, got = await rig.exchange(ask(options={"num_predict": 9}, **HI), STREAM)

    assert json.loads(request.body) == {"model": "weights", **HI, "stream": True, "max_tokens": 7}
    assert lines(got)[0]["model"] == "alpha"


async def test_a_selector_chooses_as_usual(open_rig: OpenRig) -> None:
    """The server gets its own name, the client the selector's."""
    rig = await open_rig(selectors={"best": Selector("best", Strategy.PIN, ("alpha", "beta"))})

    request, got = await rig.exchange(ask(model="best"), STREAM)

    assert json.loads(request.body)["model"] == "alpha"
    assert lines(got)[0]["model"] == "best"


async def test_a_peer_gets_openais_request(open_rig: OpenRig) -> None:
    """A peer need not know Ollama's API, and gets its own name of the model."""
    async with AsyncExitStack() as stack:
        box = on_a_port()
        stack.push_async_callback(box.aclose)
        remote = RemoteModel(ModelName("box/far"), "box", box.address, BodyChanges(model_name="far"))
        rig = await open_rig(remotes={"far": remote})
        body = json.dumps({"model": "far", **HI}).encode()
        client = await rig.send(post(body, "Content-Type: application/x-www-form-urlencoded", target="/api/chat"))
        call = await box.call()
        await call.say(STREAM)

        assert lines(await client.message())[-1]["done"]
        assert call.request.first_line == "POST /v1/chat/completions HTTP/1.1"
        assert json.loads(call.request.body)["model"] == "far"


async def test_nothing_is_translated_under_upstream_or_if_strict(open_rig: OpenRig) -> None:
    """A server that speaks Ollama's API itself is reached this way."""
    rig = await open_rig(settings=Settings(is_strict=True))
    for path in ("/api/chat", "/upstream/alpha/api/chat"):
        request, got = await rig.exchange(ask(path))
        assert request.first_line == "POST /api/chat HTTP/1.1"
        assert json.loads(request.body) == {"model": "alpha", **HI}
        assert got.body == b"hello"


async def loaded(rig: RelayRig, request: bytes) -> Message:
    """What the management API got."""
    client = await rig.send(request)
    call = await rig.management.call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert rig.alpha.lines == []
    return call.request


@pytest.mark.parametrize(
    ("members", "sent_on"),
    [
        ({"messages": []}, {}),
        ({"messages": [], "keep_alive": 0}, {"keep_alive": 0.0}),
        ({"keep_alive": "-5m", "stream": True}, {"keep_alive": -1}),
    ],
)
async def test_a_request_that_only_loads_is_not_for_a_model_server(
    rig: RelayRig, members: dict[str, Any], sent_on: dict[str, Any]
) -> None:
    """hotseat's own API answers it, and gets what it needs to know of it."""
    body = json.dumps({"model": "alpha:latest", **members}).encode()
    request = await loaded(rig, post(body, "Content-Type: text/plain", target="/api/chat/?x=1"))

    assert request.first_line == "POST /api/chat HTTP/1.1"
    assert request["content-type"] == "application/json"
    assert json.loads(request.body) == {"model": "alpha:latest", "client": "127.0.0.1", **sent_on}


async def test_a_load_without_a_name_is_one_of_the_only_model(open_rig: OpenRig) -> None:
    """As for every other request."""
    rig = await open_rig(models=(ALPHA,))

    assert json.loads((await loaded(rig, post(b"{}", target="/api/generate"))).body)["model"] == "alpha"


async def test_a_load_counts_for_the_same_client_as_a_request(open_rig: OpenRig) -> None:
    """The header that identifies clients does so for loads."""
    rig = await open_rig(access=Access(client_header="X-Who", trusted_proxies=("127.0.0.1",)))

    assert json.loads((await loaded(rig, ask("/api/chat", "X-Who: ann", messages=[]))).body)["client"] == "ann"


async def test_loads_and_unloads_are_audited(rig: RelayRig, caplog: pytest.LogCaptureFixture) -> None:
    """Who may only use models loads and unloads them in this way."""
    await loaded(rig, ask("/api/generate", keep_alive=0))
    await come_true(lambda: bool(caplog.messages))

    assert 'actor=anonymous address=127.0.0.1 action="POST /api/generate" status=200' in caplog.messages[-1]


def keep_alives(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> list[KeepAliveChanged]:
    """What is said from now on about how long models stay; the scheduler does not learn of it."""
    said: list[KeepAliveChanged] = []
    tell = rig.dispatcher.tell

    def note(event: Event) -> None:
        if isinstance(event, KeepAliveChanged):
            said.append(event)
        else:
            tell(event)

    monkeypatch.setattr(rig.dispatcher, "tell", note)
    return said


async def test_how_long_the_model_stays_is_said_when_the_request_is_granted(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: a request that waits or fails must not change what others asked for."""
    said = keep_alives(rig, monkeypatch)
    client = await rig.send(ask(model="slow", keep_alive="5m", **HI))
    await come_true(lambda: rig.waiting() == 1)
    before = list(said)
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(STREAM)
    await client.message()
    for keep_alive in (-1, 0):
        await rig.exchange(ask(keep_alive=keep_alive, **HI), STREAM)
    await rig.exchange(ask(), STREAM)

    assert before == []
    assert [(event.model, event.seconds) for event in said] == [("slow", 300.0), ("alpha", None), ("alpha", 0.0)]


# Responses


async def test_a_stream_becomes_lines(rig: RelayRig) -> None:
    """Each event is a line as soon as it is there."""
    client, call = await rig.reached(ask())
    await call.say(EVENTS)
    head = await client.read_until(b"\r\n\r\n")
    await call.say(chunked(FIRST)[: -len(b"0\r\n\r\n")])
    line = await client.read_until(b"}\n\r\n")
    await call.say(chunked(LAST))
    rest = await client.read_until(b"\r\n0\r\n\r\n")

    assert b"\r\nContent-Type: application/x-ndjson\r\n" in head
    assert b"\r\nTransfer-Encoding: chunked\r\n" in head
    assert json.loads(line.partition(b"\r\n")[2])["message"] == {"role": "assistant", "content": "one"}
    assert b'"done":true,"done_reason":"stop"' in rest
    await come_true(lambda: rig.in_flight() == 0)
    assert rig.activity.entries[0].status == 200


async def test_a_whole_response_is_one_object(rig: RelayRig) -> None:
    """With its length, and the connection goes on."""
    client, call = await rig.reached(ask(**whole()))
    await call.say(COMPLETION)
    got = await client.message()
    await client.send(ask(**whole()))
    await (await rig.alpha.call()).say(COMPLETION)

    assert (await client.message()).status == got.status == 200
    assert got["content-type"] == "application/json; charset=utf-8"
    assert lines(got)[0]["message"] == {"role": "assistant", "content": "one"}
    assert got["content-length"] == str(len(got.body))


async def test_a_whole_response_in_many_parts(rig: RelayRig) -> None:
    """It is sent when it is complete, however it arrives."""
    client, call = await rig.reached(ask(**whole()))
    body = COMPLETION.partition(b"\r\n\r\n")[2]
    await call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for byte in (body[place : place + 1] for place in range(len(body))):
        await call.say(b"1\r\n%b\r\n" % byte)
    await call.say(b"0\r\n\r\n")

    assert lines(await client.message())[0]["message"]["content"] == "one"


async def test_a_server_that_does_not_stream(rig: RelayRig) -> None:
    """The client gets one line instead of many."""
    _, got = await rig.exchange(ask(), COMPLETION)

    [line] = lines(got)
    assert (line["message"]["content"], line["done"]) == ("one", True)


@pytest.mark.parametrize(
    ("path", "members", "expected"),
    [
        ("/api/embed", {"input": ["a", "b"]}, {"embeddings": [[0.25], [0.5]]}),
        ("/api/embeddings", {"prompt": "a"}, {"embedding": [0.25]}),
    ],
)
async def test_vectors(rig: RelayRig, path: str, members: dict[str, Any], expected: dict[str, Any]) -> None:
    """Numbers pass as the server wrote them."""
    vectors = b'{"data":[{"index":0,"embedding":[0.25]},{"index":1,"embedding":[0.5]}]}'

    request, got = await rig.exchange(ask(path, **members), answer(vectors))

    assert request.first_line == "POST /v1/embeddings HTTP/1.1"
    assert expected.items() <= lines(got)[0].items()


async def test_an_old_client_gets_lines_without_chunks(rig: RelayRig) -> None:
    """The end of the connection is the end of the stream."""
    client, call = await rig.reached(ask(version="1.0"))
    await call.say(STREAM)
    got = await client.read_to_end()
    head, _, body = got.partition(b"\r\n\r\n")

    assert b"Transfer-Encoding" not in head
    assert b"\r\nConnection: close" in head
    assert [json.loads(line)["done"] for line in body.splitlines()] == [False, True]


async def test_an_old_client_gets_a_whole_response(rig: RelayRig) -> None:
    """Its length is known."""
    client, call = await rig.reached(ask(version="1.0", **whole()))
    await call.say(COMPLETION)

    assert lines(await client.message())[0]["done"]


async def test_the_wait_is_the_time_to_load(rig: RelayRig) -> None:
    """`load_duration` is how long the request waited for its model."""
    client = await rig.send(ask(model="slow", **whole()))
    await come_true(lambda: rig.waiting() == 1)
    await rig.later(7)
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(COMPLETION)
    [got] = lines(await client.message())

    assert 7e9 <= got["load_duration"] <= got["total_duration"] < 20e9


async def test_token_counts_are_recorded_as_usual(rig: RelayRig) -> None:
    """They are read from what the server sent."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
    await rig.exchange(ask(), EVENTS + chunked(FIRST, usage, LAST))
    await come_true(lambda: bool(rig.activity.entries))
    tokens = rig.activity.entries[0].tokens

    assert tokens is not None
    assert (tokens.prompt, tokens.completion) == (5, 2)


async def test_no_stream_begins_before_its_model_is_ready(open_rig: OpenRig) -> None:
    """`sendLoadingState` sends events, which these clients do not read."""
    waiting = waiting_client(await open_rig(models=(spec("slow", loading_state=LoadingState.COMMENTS),)))
    client = await waiting.enter(ask(model="slow"))
    waiting.alarms.wait(100)
    call = await waiting.loaded()
    await call.say(STREAM)
    got = await client.message()

    assert got["content-type"] == "application/x-ndjson"
    assert lines(got)[-1]["done"]


# Errors


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (ask(model="aplha"), 404, "model 'aplha' not found. Did you mean \"alpha\"?"),
        (ask(model="nothing"), 404, "model 'nothing' not found"),
        (ask(model="x" * 500), 404, f"model '{'x' * 120}…' not found"),
        (post(b"{", target="/api/chat"), 400, "the request body is not valid JSON: Input data was truncated"),
        (post(b"", target="/api/chat"), 400, "the request body is empty; send JSON with a `model` field"),
        (ask(keep_alive="soon", **HI), 400, "`keep_alive` must be a number of seconds"),
        (ask(messages=7), 400, "the request body is not a request of Ollama's API: Expected `array | null`, got `int`"),
        (ask("/api/embed"), 400, "`input` in the request body is empty"),
        (post(b"zip", "Content-Encoding: gzip", target="/api/chat"), 415, "the body is compressed"),
        (
            post(b"--b--\r\n", "Content-Type: multipart/form-data; boundary=b", target="/api/chat"),
            400,
            "the request body must be JSON",
        ),
    ],
)
async def test_errors_are_texts(rig: RelayRig, request_: bytes, status: int, text: str) -> None:
    """As Ollama sends them."""
    got = await rig.refusal(request_)
    [error] = lines(got)

    assert got.status == status
    assert list(error) == ["error"]
    assert error["error"].startswith(text)


async def test_a_body_without_a_model(open_rig: OpenRig, rig: RelayRig) -> None:
    """As elsewhere: the default model, or an error that lists the models."""
    body = json.dumps(HI).encode()

    assert b"alpha, beta, slow" in (await rig.refusal(post(body, target="/api/chat"))).body


async def test_an_error_of_the_server(rig: RelayRig) -> None:
    """Its status and its text reach the client, whether or not it wanted a stream."""
    error = answer(b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}', 400)
    for members in (HI, whole()):
        _, got = await rig.exchange(ask(**members), error)
        assert (got.status, lines(got)) == (400, [{"error": "too long"}])
    assert [entry.status for entry in rig.activity.entries] == [400, 400]


async def test_an_error_says_when_to_come_back(rig: RelayRig) -> None:
    """Of the server's own fields, clients need these two."""
    said = (b"Retry-After: 7", b"x-should-retry: true", b"X-Mine: dropped")
    _, got = await rig.exchange(ask(), answer(b'{"error":"busy"}', 503, *said))

    assert (got.status, got["retry-after"], got["x-should-retry"]) == (503, "7", "true")
    assert "x-mine" not in got.names


async def test_an_error_in_the_middle_of_a_stream(rig: RelayRig) -> None:
    """The last line says it, and the stream does not end like a complete one."""
    client, call = await rig.reached(ask())
    await call.say(EVENTS + chunked(FIRST)[: -len(b"0\r\n\r\n")])
    await client.read_until(b"}\n\r\n")
    await call.say(chunked(b'data: {"error":{"message":"out of memory"}}\n\n', LAST))
    rest = await client.read_to_end()

    assert json.loads(rest.split(b"\r\n")[1]) == {"error": "alpha failed: out of memory."}
    assert not rest.endswith(b"0\r\n\r\n")
    await come_true(lambda: rig.in_flight() == 0)
    assert rig.activity.entries[0].status == 502


async def test_an_error_as_the_first_event_has_a_status(rig: RelayRig) -> None:
    """Nothing was sent yet, so the client need not look for it."""
    _, got = await rig.exchange(ask(), EVENTS + chunked(b'data: {"error":{"message":"out of memory"}}\n\n'))

    assert (got.status, lines(got)) == (502, [{"error": "alpha failed: out of memory."}])


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_stream_that_breaks_off(rig: RelayRig, version: str) -> None:
    """The connection ends visibly: without the last chunk, or by a reset where there are no chunks."""
    client, call = await rig.reached(ask(version=version))
    await call.say(EVENTS + chunked(FIRST)[: -len(b"0\r\n\r\n")])
    await client.read_until(b'"done":false}\n')
    call.hang_up()

    if version == "1.0":
        assert await client.end() is End.RESET
    else:
        rest = await client.read_to_end()
        assert b'{"error":"alpha closed the connection in the middle of its response.' in rest
        assert not rest.endswith(b"0\r\n\r\n")
    await come_true(lambda: rig.in_flight() == 0)


async def test_a_stream_that_ends_without_a_reason(rig: RelayRig) -> None:
    """Its framing is complete, but the response may not be."""
    client, call = await rig.reached(ask())
    await call.say(EVENTS + chunked(FIRST))
    got = await client.read_to_end()

    assert b"without a reason to stop" in got
    assert not got.endswith(b"0\r\n\r\n")
    await come_true(lambda: rig.in_flight() == 0)
    assert rig.activity.entries[0].status == 502


@pytest.mark.parametrize(
    "said",
    [
        answer(b"<html>"),
        answer(b"{}"),
        answer(b"zip", 200, b"Content-Encoding: gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    ],
)
async def test_a_whole_response_that_cannot_be_translated(rig: RelayRig, said: bytes) -> None:
    """Nothing was sent yet, so it is an error with a status, and the connection goes on."""
    client, call = await rig.reached(ask(**whole()))
    await call.say(said)
    if said.endswith(b"{"):
        await turns()
        call.hang_up()
    got = await client.message()
    await client.send(ask(**whole()))
    await (await rig.alpha.call()).say(COMPLETION)

    assert got.status == 502
    assert list(lines(got)[0]) == ["error"]
    assert (await client.message()).status == 200
    assert rig.activity.entries[0].status == 502


async def test_a_whole_response_without_end(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept up to a limit, then the server's work is stopped."""
    monkeypatch.setattr(response_translation, "MOST_OF_A_COMPLETION", 1000)
    client, call = await rig.reached(ask(**whole()))
    await call.say(answer(b"x" * 1001))

    assert (await client.message()).status == 502
    await call.ended()


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_whole_response_counts_among_the_bodies(rig: RelayRig, *, is_answered: bool) -> None:
    """Until it is sent, or its client leaves; many large ones at once must not take all memory."""
    client, call = await rig.reached(ask(**whole()))
    bodies, text = rig.relay.context.bodies, COMPLETION.partition(b"\r\n\r\n")[2]
    await call.say(COMPLETION[:-1])
    await come_true(lambda: bodies.in_memory == len(text) - 1)
    if is_answered:
        await call.say(COMPLETION[-1:])
        assert (await client.message()).status == 200
    else:
        client.hang_up()

    await come_true(lambda: bodies.in_memory == 0)


@pytest.mark.parametrize("first", [0, 600])
async def test_whole_responses_that_take_too_much_together(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The one that exceeds the total is refused, whether at its begin or later, and the server's work is stopped."""
    monkeypatch.setattr(limits, "MOST_IN_MEMORY", 1000)
    monkeypatch.setattr(limits, "SMALL_BODY", 0)
    client, call = await rig.reached(ask(**whole()))
    said = answer(b"x" * 2000)
    begin = len(said) - 2000 + first
    if first:
        await call.say(said[:begin])
        await come_true(lambda: rig.relay.context.bodies.in_memory == first)
        await call.say(said[begin:-1])
    else:
        await call.say(said[:-1])
    got = await client.message()

    assert (got.status, got["retry-after"]) == (429, "1")
    await call.ended()
    assert (rig.relay.context.bodies.in_memory, rig.in_flight()) == (0, 0)


async def test_a_client_that_leaves_ends_the_work(rig: RelayRig) -> None:
    """The lease ends, and the server's connection with it."""
    for members in (HI, whole()):
        client, call = await rig.reached(ask(**members))
        await call.say(EVENTS + chunked(FIRST)[: -len(b"0\r\n\r\n")])
        await turns()
        client.hang_up()

        await call.ended()
        await come_true(lambda: rig.in_flight() == 0)


# Rights


KEYS = (
    ApiKey("asks", models=("alpha",)),
    ApiKey("other", models=("beta",)),
    ApiKey("runs", Role.OPERATE),
)


@pytest.mark.parametrize(
    ("key", "members", "status"),
    [
        ("asks", HI, 200),
        ("other", HI, 403),
        ("runs", HI, 200),
        ("none", HI, 401),
        ("asks", {"messages": []}, 200),
        ("other", {"messages": []}, 403),
        ("none", {"messages": []}, 401),
    ],
)
async def test_keys(open_rig: OpenRig, key: str, members: dict[str, Any], status: int) -> None:
    """A key for inference may use and load its own models, and no others."""
    rig = await open_rig(access=Access(api_keys=KEYS))
    request = ask("/api/chat", f"Authorization: Bearer {key}", **members)
    if status != 200:
        got = await rig.refusal(request)
        assert (got.status, list(lines(got)[0])) == (status, ["error"])
        assert rig.alpha.lines == rig.management.lines == []
        return
    client = await rig.send(request)
    server, said = (rig.alpha, STREAM) if members["messages"] else (rig.management, HELLO)
    call = await server.call()
    await call.say(said)

    assert (await client.message()).status == 200
    assert "authorization" not in call.request.names


@pytest.mark.parametrize("members", [HI, {"messages": []}], ids=["chat", "load"])
async def test_limits_of_a_key_count_every_request(open_rig: OpenRig, members: dict[str, Any]) -> None:
    """A load may cost more than an answer, so it counts like one."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("asks", requests=Budget(1, 86400.0)),)))
    request = ask("/api/chat", "Authorization: Bearer asks", **members)
    client = await rig.send(request)
    server, said = (rig.alpha, STREAM) if members["messages"] else (rig.management, HELLO)
    await (await server.call()).say(said)

    assert (await client.message()).status == 200
    assert (await rig.refusal(request)).status == 429


async def test_a_page_of_this_machine_may_chat(rig: RelayRig) -> None:
    """Pages that may use models may use them in this way; the preflight says so."""
    origin = ("Origin: http://localhost:3000",)
    preflight = get(
        "/api/chat", "Origin: http://localhost:3000", "Access-Control-Request-Method: POST", method="OPTIONS"
    )
    allowed = await rig.refusal(preflight.replace(b"Host: box", b"Host: localhost:8080"))
    _, got = await rig.exchange(ask("/api/chat", *origin).replace(b"Host: box", b"Host: localhost:8080"), STREAM)

    assert allowed["access-control-allow-origin"] == got["access-control-allow-origin"] == "http://localhost:3000"


def of_page(path: str, **members: Any) -> bytes:
    """From a page of this machine that may only use models, as it can send it without a preflight."""
    body = json.dumps({"model": "alpha", **members}).encode()
    request = post(body, "Content-Type: text/plain", "Origin: http://localhost:3000", target=path)
    return request.replace(b"Host: box", b"Host: localhost:8080")


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_a_page_that_may_only_use_models_unloads_none(rig: RelayRig, path: str) -> None:
    """The refusal says who may; nothing reaches hotseat's own API."""
    got = await rig.refusal(of_page(path, keep_alive=0))

    assert (got.status, rig.management.lines) == (403, [])
    assert "allowedOrigins" in lines(got)[0]["error"]


async def test_a_page_that_may_only_use_models_does_not_say_how_long_they_stay(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with a request nor with a load; both are served."""
    said = keep_alives(rig, monkeypatch)
    request = await loaded(rig, of_page("/api/generate", keep_alive="1h"))
    _, got = await rig.exchange(of_page("/api/chat", keep_alive=0, **HI), STREAM)

    assert "keep_alive" not in json.loads(request.body)
    assert (got.status, said) == (200, [])
